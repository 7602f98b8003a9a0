"""Every command and option that the documentation names exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tidelog.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]+`")
TREE: Any = typer.main.get_command(app)


def code(page: str) -> Iterator[str]:
    """The inline code and the lines of the blocks; a `\\` at a line's end continues it."""
    for block in FENCED.findall(page):
        yield from block.replace("\\\n", " ").splitlines()[1:-1]
    yield from (each.strip("`") for each in INLINE.findall(FENCED.sub("", page)))


def missing(line: str) -> list[str]:
    """The subcommand or the options of one `tidelog …` that do not exist."""
    found = re.search(r"(?:^|[\s/])tidelog ([a-z][^|;]*)", line)
    if found is None:
        return []
    words = re.sub(r"\s#.*", "", found[1]).split()
    command, path = TREE, "tidelog"
    while words and hasattr(command, "commands"):
        names = words[0].split("/")
        unknown = [name for name in names if name not in command.commands and re.fullmatch("[a-z-]+", name)]
        if unknown:
            return [f"{path} {name}" for name in unknown]
        if names[0] not in command.commands:
            break
        command, path = command.commands[names[0]], f"{path} {names[0]}"
        words = words[1:]
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    if hasattr(command, "commands"):
        return []
    asked = [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]
    return [f"{path} {name}" for name in asked if name not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    assert [each for line in code(page.read_text()) for each in missing(line)] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("$ tidelog topics create orders --partitions 2", []),
        ("tidelog topics creat orders", ["tidelog topics creat"]),
        ("/opt/tidelog/bin/tidelog topics create orders --partition 2", ["tidelog topics create --partition"]),
        ("tidelog pipeline run/validate/status", []),
        ("pip install tidelog", []),
    ],
)
def test_a_name_that_does_not_exist_is_found(line: str, found: list[str]) -> None:
    assert missing(line) == found
