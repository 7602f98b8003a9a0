"""What producers make of what librdkafka tells them, with handles that tell what the test wants."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.verify.librdkafka import FatalErrors
from tidelog.verify.producing import LoadProducer, Probe
from tidelog.verify.sends import ACKNOWLEDGED, REFUSED, UNKNOWN, Sends


class KafkaException(Exception):
    pass


class Kafka:
    KafkaException = KafkaException


class Error:
    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code


class Message:
    def __init__(self, partition: int, value: bytes, offset: int | None) -> None:
        self._partition, self._value, self._offset = partition, value, offset

    def partition(self) -> int:
        return self._partition

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int | None:
        return self._offset


# What becomes of a record: an offset, None for an acknowledgement without one, or an error.
Fate = int | Error | None


class Handle:
    """A producer that answers each record with the next fate; without one it keeps it to itself."""

    def __init__(self, *fates: Fate, raises: Exception | None = None, full: int = 0) -> None:
        self.sizes: list[int] = []
        self._fates = deque(fates)
        self._held: deque[tuple[int, bytes, Callable[[Any, Any], None]]] = deque()
        self._raises = raises
        self._full = full

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        if self._full:
            self._full -= 1
            raise BufferError
        self.sizes.append(len(value))
        self._held.append((partition, value, on_delivery))

    def poll(self, seconds: float) -> None:
        while self._held and self._fates:
            partition, value, on_delivery = self._held.popleft()
            fate = self._fates.popleft()
            if isinstance(fate, Error):
                on_delivery(fate, Message(partition, value, None))
            else:
                on_delivery(None, Message(partition, value, fate))
        if self._raises is not None and self._held:
            raise self._raises


class Ticks:
    """A millisecond for every look at the clock."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def load(*handles: Handle, records: int, partitions: int = 1) -> tuple[LoadProducer, dict[int, Sends]]:
    sends = {partition: Sends(0, partition, idempotent=True) for partition in range(partitions)}
    waiting = deque(handles)
    producer = LoadProducer(
        waiting.popleft,
        FatalErrors(Kafka),
        "orders",
        sends,
        Ticks(),
        0.1,
        rate=0,
        record_bytes=100,
        max_records=records,
    )
    producer.work()
    return producer, sends


def test_outcomes_are_kept_by_sequence() -> None:
    producer, sends = load(Handle(7, None, Error(10), Error(-192)), records=4)
    assert list(sends[0].outcomes) == [7, ACKNOWLEDGED, REFUSED, UNKNOWN]
    assert producer.acknowledged == 2


def test_partitions_get_records_in_turn() -> None:
    _, sends = load(Handle(*range(6)), records=6, partitions=3)
    assert [list(sends[partition].outcomes) for partition in range(3)] == [[0, 3], [1, 4], [2, 5]]


def test_too_few_replicas_refuse_for_certain_only_what_was_tried_once() -> None:
    _, sends = load(Handle(Error(19)), records=1)
    assert list(sends[0].outcomes) == [UNKNOWN]
    probed = {0: Sends(1, 0, idempotent=False)}
    handle = Handle(Error(19), Error(10))
    probe = Probe(
        lambda: handle, FatalErrors(Kafka), "orders", probed, Ticks(), 0.1, record_bytes=50, too_large_bytes=999
    )
    probe.stopping.wait = lambda timeout=None: len(handle.sizes) == 2  # type: ignore[method-assign]
    probe.work()
    assert list(probed[0].outcomes) == [REFUSED, REFUSED] and handle.sizes == [50, 999]


def test_a_full_queue_is_waited_for() -> None:
    _, sends = load(Handle(0, 1, full=3), records=2)
    assert list(sends[0].outcomes) == [0, 1]


def test_an_answer_that_never_comes_stays_unanswered() -> None:
    producer, sends = load(Handle(0), records=2)
    assert producer.fatal.count == 0 and len(sends[0]) == 2
    assert sends[0].outcomes[1] == -1


@pytest.mark.parametrize("raised", [KafkaException("out of order"), SystemError("exception is not a BaseException")])
def test_after_a_fatal_error_another_handle_goes_on(raised: Exception) -> None:
    first, second = Handle(5, raises=raised), Handle(*range(6, 600))
    producer, sends = load(first, second, records=502)
    assert producer.fatal.count >= 1 and producer.fatal.last == str(raised)
    # One was answered, the rest of the first burst is nobody's any more, and the second handle goes on.
    assert list(sends[0].outcomes) == [5, *[UNKNOWN] * 499, 6, 7]


def test_what_is_no_fatal_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        load(Handle(raises=ZeroDivisionError()), records=1)


def test_an_error_that_is_no_exception_is_a_fatal_one() -> None:
    fatal = FatalErrors(Kafka)
    fatal.__enter__()
    assert fatal.__exit__(None, None, None) is False
    assert (fatal.failed, fatal.count) == (False, 0)
    assert fatal.__exit__(Error, Error(1), None) is True
    assert (fatal.failed, fatal.count) == (True, 1)


def test_abandoned_work_ends_at_once() -> None:
    sends = {0: Sends(0, 0, idempotent=True)}
    producer = LoadProducer(
        Handle, FatalErrors(Kafka), "orders", sends, Ticks(), 1e9, rate=0, record_bytes=50, max_records=10
    )
    producer.abandon()
    producer.work()
    assert len(sends[0]) == 0
