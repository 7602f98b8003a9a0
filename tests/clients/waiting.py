"""Waiting for an event with a deadline: the only place where tests of real sockets read a clock."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.02


def now() -> float:
    return time.monotonic()  # noqa: TID251 - these tests run against real clients in real time


def wall_ms() -> int:
    return int(time.time() * 1000)  # noqa: TID251 - a record's create time, as a client would give it


class Deadline:
    """A point in time, and how far away it is."""

    def __init__(self, seconds: float) -> None:
        self._at = now() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._at - now())

    @property
    def passed(self) -> bool:
        return self.left == 0.0


def wait_until(condition: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """The first truthy answer of `condition`; a failure that says what was waited for when there is none."""
    deadline = Deadline(seconds)
    while True:
        answer = condition()
        if answer:
            return answer
        if deadline.passed:
            raise AssertionError(f"after {seconds:g} s still not: {what} (last answer: {answer!r})")
        time.sleep(PAUSE_SECONDS)
