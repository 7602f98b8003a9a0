"""Help pages: grouped as the contract groups commands, with examples that parse, and within the width of a terminal."""

import re
import shlex
from typing import Any

import pytest
import typer
from tests.unit.cli.test_usage import ALL_COMMANDS

from tidelog.cli.app import SECTIONS, app, run

ROOT: Any = typer.main.get_command(app)
GROUPS = sorted({command[0] for command in ALL_COMMANDS if len(command) > 1})
PAGES: list[tuple[str, ...]] = [(), *((group,) for group in GROUPS), *ALL_COMMANDS]
COLUMNS = 80


def page_of(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*path, "--help"]) == 0
    return capsys.readouterr().out


def parse(line: str) -> tuple[str, ...]:
    """Parses what follows `tidelog` as the command line does, and returns the command's name."""
    words = shlex.split(line)
    words = words[words.index("tidelog") + 1 :]
    command, path = ROOT, []
    while hasattr(command, "commands"):
        path.append(words.pop(0))
        command = command.commands[path[-1]]
    command.make_context(path[-1], words)
    return tuple(path)


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: " ".join(path) or "tidelog")
def test_every_page_has_examples_that_parse_and_fits_a_terminal(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(path, capsys)
    text, _, shown = page.partition("Example:\n")
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    parsed = [parse(line) for line in lines]
    assert any(command[: len(path)] == path for command in parsed), f"no example of its own: {lines}"
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    # An example is one line to copy, however long it is.
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: " ".join(path) or "tidelog")
def test_every_option_and_argument_is_explained(path: tuple[str, ...]) -> None:
    command = ROOT
    for word in path:
        command = command.commands[word]
    unexplained = [
        parameter.name for parameter in command.params if not parameter.help and not getattr(parameter, "hidden", False)
    ]
    assert unexplained == []


def test_commands_are_listed_in_the_sections_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    page = page_of((), capsys)
    headings = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    assert headings == ["Options", *SECTIONS]
    assert list(SECTIONS) == [
        "Clusters and nodes",
        "Topics, records and groups",
        "Replication",
        "Simulation, verification and measurement",
        "Jobs on Spark",
    ]
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(ROOT.commands)
