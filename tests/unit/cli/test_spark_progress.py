"""Progress of commands on Spark: at once, in place on a terminal, as plain lines elsewhere."""

import io
import threading
from typing import NamedTuple

import pytest

from tidelog.cli.spark_progress import SparkProgress


class Out(io.StringIO):
    """Standard error. `counted` is set once tasks have been shown."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.counted = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if " tasks" in text:
            self.counted.set()
        return written


class Stage(NamedTuple):
    """As Spark's tracker describes one."""

    numTasks: int = 8  # noqa: N815 - Spark's name
    numCompletedTasks: int = 3  # noqa: N815 - Spark's name


class Spark:
    """Two stages run, and one has ended meanwhile."""

    @property
    def sparkContext(self) -> "Spark":
        return self

    def statusTracker(self) -> "Spark":
        return self

    def getActiveStageIds(self) -> list[int]:
        return [1, 2, 3]

    def getStageInfo(self, stage: int) -> "Stage | None":
        return None if stage == 3 else Stage()


def test_a_terminal_has_one_line_that_moves_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Out(is_terminal=True)
    progress = SparkProgress("tidelog export", out=out)
    assert "tidelog export: starting Spark, 0 s" in out.getvalue(), "before anything else happens"
    progress.ready(Spark(), "exporting orders")  # type: ignore[arg-type]
    assert out.counted.wait(30)
    progress.relay("a warning")
    progress.close()
    assert out.getvalue().endswith("\r\x1b[K"), "the line is gone"
    assert "\r\x1b[Ka warning\n" in out.getvalue()
    assert out.getvalue().count("\n") == 1


def test_elsewhere_it_is_plain_lines_at_the_start_when_ready_and_now_and_then() -> None:
    out = Out()
    progress = SparkProgress("tidelog export", out=out, plain_s=0.01)
    progress.ready(Spark(), "exporting orders")  # type: ignore[arg-type]
    assert out.counted.wait(30)
    progress.close()
    first, *lines = out.getvalue().splitlines()
    assert first == "tidelog export: starting Spark"
    (ready,) = (each for each in lines if "is ready" in each)
    assert ready.startswith("tidelog export: Spark is ready after ") and ready.endswith(" s, exporting orders")
    assert any(each.startswith("tidelog export: exporting orders: 6 of 16 tasks, ") for each in lines)
    assert not any("\r" in each or "\x1b" in each for each in lines)


def test_a_closed_standard_error_ends_nothing() -> None:
    out = io.StringIO()
    progress = SparkProgress("tidelog export", out=out)
    out.close()
    progress.relay("nobody reads it")
    progress.close()
