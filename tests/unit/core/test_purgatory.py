"""Requests that wait: completed by their event, once, in order; ended by time; nothing left behind."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tidelog.core.purgatory import Purgatory


class Timers:
    """Timers that the test fires."""

    def __init__(self) -> None:
        self.started: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def start(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        entry = (delay_s, callback)
        self.started.append(entry)

        def cancel() -> None:
            self.cancelled += 1
            if entry in self.started:
                self.started.remove(entry)

        return cancel

    def fire(self) -> None:
        for _, callback in list(self.started):
            callback()


@dataclass(eq=False)
class Operation:
    name: str
    story: list[str]
    ready: bool = False
    looked: int = field(default=0)

    def try_complete(self) -> bool:
        self.looked += 1
        if self.ready:
            self.story.append(f"{self.name} done")
        return self.ready

    def expire(self) -> None:
        self.story.append(f"{self.name} expired")


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.mark.rule("F3")
def test_what_is_ready_does_not_wait(timers: Timers) -> None:
    story: list[str] = []
    purgatory = Purgatory(timers.start)
    assert purgatory.try_complete_else_watch(Operation("a", story, ready=True), ["k"], 1.0) is None
    assert story == ["a done"]
    assert not timers.started


@pytest.mark.rule("F3")
def test_the_event_completes_in_order_of_arrival_and_once(timers: Timers) -> None:
    story: list[str] = []
    purgatory = Purgatory(timers.start)
    operations = [Operation(name, story) for name in "abc"]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k", "other"], 1.0)
    assert purgatory.check("k") == 0
    for operation in operations:
        operation.ready = True
    assert purgatory.check("k") == 3
    assert story == ["a done", "b done", "c done"]
    assert purgatory.check("k") == 0
    assert purgatory.check("other") == 0
    assert (len(purgatory), purgatory.watched_keys()) == (0, 0)
    assert not timers.started


def test_time_ends_a_wait_once(timers: Timers) -> None:
    story: list[str] = []
    purgatory = Purgatory(timers.start)
    operation = Operation("a", story)
    purgatory.try_complete_else_watch(operation, ["k"], 1.0)
    timers.fire()
    timers.fire()
    operation.ready = True
    purgatory.check("k")
    assert story == ["a expired"]
    assert len(purgatory) == 0


def test_a_dropped_wait_is_neither_completed_nor_expired(timers: Timers) -> None:
    story: list[str] = []
    purgatory = Purgatory(timers.start)
    operation = Operation("a", story)
    drop = purgatory.try_complete_else_watch(operation, ["k"], 1.0)
    assert drop is not None
    drop()
    drop()
    operation.ready = True
    purgatory.check("k")
    timers.fire()
    assert story == []
    assert timers.cancelled == 1


def test_an_event_of_another_key_does_not_look(timers: Timers) -> None:
    purgatory = Purgatory(timers.start)
    operation = Operation("a", [])
    purgatory.try_complete_else_watch(operation, ["k"], 1.0)
    purgatory.check("other")
    assert operation.looked == 1


def test_an_operation_may_wake_others_while_it_completes(timers: Timers) -> None:
    story: list[str] = []
    purgatory = Purgatory(timers.start)

    class Waker(Operation):
        def try_complete(self) -> bool:
            done = super().try_complete()
            if done:
                second.ready = True
                purgatory.check("k")
            return done

    first, second = Waker("first", story), Operation("second", story)
    purgatory.try_complete_else_watch(first, ["k"], 1.0)
    purgatory.try_complete_else_watch(second, ["k"], 1.0)
    first.ready = True
    purgatory.check("k")
    assert sorted(story) == ["first done", "second done"]
    assert len(purgatory) == 0


def test_what_waits_for_many_keys_is_looked_at_once_when_all_of_them_moved() -> None:
    looks: list[str] = []

    class Waiting:
        def try_complete(self) -> bool:
            looks.append("look")
            return False

        def expire(self) -> None: ...

    purgatory = Purgatory(lambda _, __: lambda: None)
    purgatory.try_complete_else_watch(Waiting(), range(1000), 1.0)
    looks.clear()
    assert purgatory.check_all(range(2000)) == 0
    assert looks == ["look"]
