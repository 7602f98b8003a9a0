"""`format` and `random-uuid` up to where the node's own process takes over."""

import pytest

from tidelog.cli import server
from tidelog.cli.app import run
from tidelog.core.ids import uuid_from_text


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []
    monkeypatch.setattr(server, "_become_broker", calls.append)
    return calls


def test_a_random_uuid_is_one_that_format_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["random-uuid"]) == 0
    first = capsys.readouterr().out.strip()
    assert run(["random-uuid"]) == 0
    assert uuid_from_text(first) != uuid_from_text(capsys.readouterr().out.strip())
    assert not first.startswith("-")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], []),
        (["--cluster-id", "abc"], ["--cluster-id=abc"]),
        (["--standalone"], ["--standalone"]),
        (["--no-initial-controllers"], ["--no-initial-controllers"]),
        (["--initial-controllers", "1@h:1:x"], ["--initial-controllers=1@h:1:x"]),
    ],
)
def test_format_hands_its_options_on(arguments: list[str], expected: list[str], handed_over: list[list[str]]) -> None:
    assert run(["format", "--config", "f", *arguments]) == 0
    assert handed_over == [["format", "--config", "f", *expected]]


def test_the_ways_to_name_the_first_voters_exclude_each_other(
    handed_over: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["format", "--config", "f", "--standalone", "--initial-controllers", "1@h:1:x"]) == 2
    assert "give only one of them" in capsys.readouterr().err
    assert handed_over == []
