"""Python functions by import path, `package.module:function`, looked for without running any of their code."""

import ast
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class NoFunction(ValueError):
    """What of the path is not there, in one line."""


def check(path: str, folder: Path) -> None:
    """NoFunction unless the module is found in `folder` or on Python's path, and defines the function."""
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in module.split(".")) or not name.isidentifier():
        raise NoFunction(f"{path!r} is not of the form module:function")
    spec = _find(module, [str(folder), *sys.path])
    if spec.origin is None or not spec.origin.endswith(".py"):
        # Compiled, or a package without code: only importing it would tell.
        return
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (SyntaxError, ValueError) as error:
        raise NoFunction(f"{spec.origin} is not Python: {error}") from None
    if name not in _defined(tree.body):
        raise NoFunction(f"module {module} ({spec.origin}) defines no {name}")


def _find(module: str, places: list[str]) -> ModuleSpec:
    found: ModuleSpec | None = None
    searched: list[str] | None = places
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        found = None if searched is None else PathFinder.find_spec(name, searched)
        if found is None:
            raise NoFunction(f"no module {name} beside the file or on Python's path")
        locations = found.submodule_search_locations
        searched = None if locations is None else list(locations)
    assert found is not None
    return found


def _defined(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(each.name)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.Assign):
            names |= {node.id for target in each.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            names.add(each.target.id)
        elif isinstance(each, ast.If | ast.Try):
            names |= _defined([*each.body, *each.orelse, *getattr(each, "finalbody", [])])
    return names
