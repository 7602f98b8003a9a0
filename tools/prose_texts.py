"""Extracts the prose of a file for tools/prose.py: passages with their line, by kind.

Kinds: `docs` (Markdown, HTML, comments of TOML and YAML), `messages` (string literals that a user may read, and the
docstrings that become `--help`), `comments` (comments and all other docstrings), `names` (test names as words).
Code, inline code, link targets and addresses are not prose.
"""

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Passage(NamedTuple):
    """A paragraph, a list item, a table cell, a literal or a comment. `wide`: its width, if that is over the limit."""

    kind: str
    line: int
    text: str
    heading: bool = False
    wide: int = 0


WIDTH = 200
_INLINE_CODE = re.compile(r"(`+)(.+?)\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ADDRESS = re.compile(r"\b(?:https?|sc|hdfs|s3a)://\S+")
_TAG = re.compile(r"<[^>]+>")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_PRAGMA = re.compile(r"^(?:noqa|type:|pragma:|mypy:|ruff:|!)")
_SCRIPT_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`")
_SCRIPT_COMMENT = re.compile(r"^\s*//\s?(.*)$")
# A literal is prose when it has three words in a row; keys, formats and SQL are not.
_PROSE = re.compile(r"[A-Za-z][a-z']*,? [a-z']+,? [a-z']+")
_QUERY = re.compile(r"^\s*(?:select|with|create|insert|merge|update|delete)\s", re.IGNORECASE)


def passages(path: Path) -> Iterator[Passage]:
    text = path.read_text(errors="replace")
    match path.suffix:
        case ".md":
            yield from _markdown(text)
        case ".py":
            yield from _python(text, path)
        case ".js":
            yield from _script(text)
        case ".html":
            yield from _page(text)
        case ".yml" | ".yaml" | ".toml" | ".properties" | ".service":
            yield from _settings(text)
        case ".json" if path.parent.name == "grafana":
            yield from _dashboard(text)
        case _:
            return


def plain(text: str) -> str:
    """The sentence as it is read: links by their text, code as one word."""
    text = _INLINE_CODE.sub(" CODE ", text)
    text = _LINK.sub(r"\1", text)
    text = _ADDRESS.sub("ADDRESS", text)
    text = html.unescape(_TAG.sub(" ", text))
    return " ".join(text.replace("**", "").replace("__", "").split())


def _markdown(text: str) -> Iterator[Passage]:
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    fence: str | None = None
    held: list[str] = []
    start = 0

    def flush() -> Iterator[Passage]:
        if held:
            yield Passage("docs", start, plain(" ".join(held)))
            held.clear()

    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if fence is not None:
            if stripped.startswith(fence):
                fence = None
            continue
        if stripped.startswith(("```", "~~~")):
            yield from flush()
            fence = stripped[:3]
            continue
        cells = stripped.strip("|").split(" | ") if stripped.startswith("|") else None
        if cells is not None:
            yield from flush()
            if not set(stripped) <= set("|-: "):
                for cell in cells:
                    read = plain(cell)
                    yield Passage("docs", number, read, wide=len(read) if len(read) > WIDTH else 0)
            continue
        if len(line) > WIDTH and not stripped.startswith("!["):
            yield Passage("docs", number, "", wide=len(line))
        if stripped.startswith("#"):
            yield from flush()
            yield Passage("docs", number, plain(stripped.lstrip("# ")), heading=True)
        elif not stripped:
            yield from flush()
        elif _BULLET.match(line):
            yield from flush()
            start = number
            held.append(_BULLET.sub("", line))
        else:
            if not held:
                start = number
            held.append(stripped)
    yield from flush()


def _python(text: str, path: Path) -> Iterator[Passage]:
    tree = ast.parse(text)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and id(node.value) not in docstrings:
            yield from _field_docstring(node, docstrings)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(node, docstrings)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield Passage("names", node.lineno, node.name.removeprefix("test_").replace("_", " "))
    if "tests" not in path.parts:
        yield from _literals(tree, docstrings)
    yield from _comments(text)


def _docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, seen: set[int]
) -> Iterator[Passage]:
    first = node.body[0] if node.body else None
    if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
        return
    if not isinstance(first.value.value, str):
        return
    seen.add(id(first.value))
    decorators = getattr(node, "decorator_list", [])
    shown = any(".command" in ast.unparse(each) or ".callback" in ast.unparse(each) for each in decorators)
    kind = "messages" if shown else "comments"
    for offset, paragraph in _paragraphs(first.value.value):
        yield Passage(kind, first.lineno + offset, plain(paragraph))


def _field_docstring(node: ast.Expr, seen: set[int]) -> Iterator[Passage]:
    """A string below a field. Docstrings of functions come first in a walk, so they are known by now."""
    assert isinstance(node.value, ast.Constant)
    if isinstance(node.value.value, str):
        seen.add(id(node.value))
        yield Passage("comments", node.lineno, plain(node.value.value))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    held: list[str] = []
    start = 0
    for number, line in enumerate(text.split("\n")):
        stripped = line.strip()
        if (not stripped or _BULLET.match(line) or line.startswith("        ")) and held:
            yield start, " ".join(held)
            held = []
        if stripped:
            if not held:
                start = number
            held.append(_BULLET.sub("", stripped))
    if held:
        yield start, " ".join(held)


def _literals(tree: ast.AST, docstrings: set[int]) -> Iterator[Passage]:
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node) if part is not node)
            if id(node) in inside and not any(isinstance(part, ast.FormattedValue) for part in node.values):
                continue
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            text = node.value
        else:
            continue
        if _PROSE.search(text) and not _QUERY.match(text):
            for offset, paragraph in _paragraphs(text):
                yield Passage("messages", node.lineno + offset, plain(paragraph))


def _comments(text: str) -> Iterator[Passage]:
    held: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        said = token.string.lstrip("#").strip()
        if _PRAGMA.match(said):
            continue
        alone = token.line.strip().startswith("#")
        if held and (token.start[0] != last + 1 or not alone):
            yield Passage("comments", start, plain(" ".join(held)))
            held = []
        if not held:
            start = token.start[0]
        held.append(said)
        last = token.start[0]
    if held:
        yield Passage("comments", start, plain(" ".join(held)))


def _script(text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.split("\n"), 1):
        if comment := _SCRIPT_COMMENT.match(line):
            yield Passage("comments", number, plain(comment[1]))
            continue
        for found in _SCRIPT_STRING.finditer(line):
            said = re.sub(r"\$\{[^}]*\}", "VALUE", next(group for group in found.groups() if group is not None))
            if _PROSE.search(said):
                yield Passage("messages", number, plain(said))


def _page(text: str) -> Iterator[Passage]:
    for number, line in enumerate(_COMMENT.sub("", text).split("\n"), 1):
        said = plain(line)
        if _PROSE.search(said):
            yield Passage("messages", number, said)
        for shown in re.findall(r"(?:title|aria-label|placeholder|alt)=\"([^\"]+)\"", line):
            yield Passage("messages", number, plain(shown))


def _settings(text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            yield Passage("docs", number, plain(stripped.lstrip("# ")))
        elif found := re.match(r"(?:summary|description|title|Description)\s*[:=]\s*(.+)", stripped):
            yield Passage("docs", number, plain(found[1].strip("\"'")))
        elif " # " in line:
            yield Passage("docs", number, plain(line.split(" # ", 1)[1]))


def _dashboard(text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.match(r"\s*\"(?:title|description)\": \"(.+)\"", line):
            yield Passage("docs", number, plain(found[1]))
