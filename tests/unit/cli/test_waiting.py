"""At a terminal a command reports what it waits for; scripts see nothing of it."""

import io
import sys
from threading import Event

import pytest

from tidelog.cli import output
from tidelog.cli.output import note_if_slow
from tidelog.cli.session import _RetryNotes
from tidelog.wire.errors import ApiError, ErrorCode


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        size = super().write(text)
        self.written.set()
        return size


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in a test's body: pytest replaces standard error after the fixtures."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_slow_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(output, "SLOW_S", 0.0)
    with note_if_slow("starting the cluster"):
        assert terminal.written.wait(10)
    assert "starting the cluster" in terminal.getvalue()


def test_a_first_answer_that_takes_long_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    notes = _RetryNotes()
    notes.slow()
    notes.slow()
    assert terminal.getvalue().count("waiting for the answer of a broker") == 1


def test_quick_work_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(output, "SLOW_S", 60.0)
    with note_if_slow("starting the cluster"):
        pass
    assert not terminal.getvalue()


def test_the_reason_of_long_retries_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    notes = _RetryNotes()
    few = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "orders-0 has 1 in-sync replicas, 2 are needed")
    notes(few, 0.3)
    assert not terminal.getvalue()
    notes(few, 1.1)
    notes(few, 1.9)
    notes(ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "orders-0 has no leader"), 2.7)
    assert [line.rpartition("\x1b[K")[2] for line in terminal.getvalue().split("\n")[:-1]] == [
        "retrying: orders-0 has 1 in-sync replicas, 2 are needed (NOT_ENOUGH_REPLICAS)",
        "retrying: orders-0 has no leader (LEADER_NOT_AVAILABLE)",
    ]
