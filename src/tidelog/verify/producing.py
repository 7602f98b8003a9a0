"""Producers, each in a thread of its own. It keeps what it was told in its `Sends`, which no other thread writes."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.verify.librdkafka import REFUSALS, REFUSALS_OF_ONE_TRY, FatalErrors
from tidelog.verify.sends import Sends
from tidelog.verify.values import decode, encode, sequence_of

# What one producer has under way at most; with a leader gone for long it waits here instead of queueing on.
MAX_IN_FLIGHT: Final = 20_000
_BURST: Final = 500
_IDLE_POLL_S: Final = 0.005
_BUSY_POLL_S: Final = 0.05
_FLUSH_STEP_S: Final = 0.5
_FATAL_POLLS: Final = 10
_PROBE_EVERY_S: Final = 0.5


class Worker:
    """Work for a thread of its own; it ends soon after `stop`, and raises what goes wrong to whoever waits for it."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.abandoned = threading.Event()

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """No more of it; what was begun is brought to its end."""
        self.stopping.set()

    def abandon(self) -> None:
        """Nobody wants the result any more."""
        self.stopping.set()
        self.abandoned.set()


class Sender(Worker):
    """What producers share: a librdkafka handle, made anew after a fatal error, and the delivery reports."""

    refusals: frozenset[int] = REFUSALS

    def __init__(
        self,
        make: Callable[[], Any],
        fatal: FatalErrors,
        topic: str,
        sends: Mapping[int, Sends],
        now_ms: Callable[[], int],
        flush_s: float,
    ) -> None:
        super().__init__()
        self.acknowledged = 0
        self.fatal = fatal
        self._make = make
        self._topic = topic
        self._sends = sends
        self._now_ms = now_ms
        self._flush_s = flush_s
        self._in_flight = 0
        self._producer: Any = None

    def work(self) -> None:
        self._producer = self._make()
        try:
            self.send_all()
            self.flush()
        finally:
            # Its last reference: a handle that lived on would ask for its topic, and so create it again.
            self._producer = None

    def send_all(self) -> None:
        raise NotImplementedError

    def produce(self, partition: int, size: int) -> None:
        sends = self._sends[partition]
        sequence = sends.sent(self._now_ms())
        value = encode(sends.producer, partition, sequence, size)
        while not self.abandoned.is_set():
            try:
                with self.fatal:
                    self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self.poll(_BUSY_POLL_S)
                continue
            if not self.fatal.failed:
                self._in_flight += 1
                return
            self._reopen()

    def poll(self, seconds: float) -> None:
        """Lets delivery reports in."""
        with self.fatal:
            self._producer.poll(seconds)
        if self.fatal.failed:
            self._reopen()

    def flush(self) -> None:
        """Waits for the last answers; what has none when the time is over stays unanswered in the history."""
        deadline = self._now_ms() + int(self._flush_s * 1000)
        while self._in_flight and self._now_ms() < deadline and not self.abandoned.is_set():
            self.poll(_FLUSH_STEP_S)

    def _reopen(self) -> None:
        """After a fatal error librdkafka fails all it holds and takes no more; a new handle is a new producer id."""
        for _ in range(_FATAL_POLLS):
            # The reports of what it held come from the old handle, less those that met the exception on their way.
            with self.fatal:
                self._producer.poll(_BUSY_POLL_S)
        for sends in self._sends.values():
            sends.give_up(self._now_ms())
        self._in_flight = 0
        self._producer = self._make()

    def _delivered(self, error: Any, message: Any) -> None:
        self._in_flight -= 1
        sends = self._sends[message.partition()]
        sequence = sequence_of(decode(message.value(), message.partition()))
        if error is None:
            self.acknowledged += 1
            # None: a retry that the broker knew for one, and no longer what it had answered.
            offset = message.offset()
            sends.acknowledged(sequence, -1 if offset is None else offset, self._now_ms())
        else:
            sends.failed(sequence, self._now_ms(), refused=error.code() in self.refusals)


class LoadProducer(Sender):
    """Sends at a steady rate to all partitions in turn."""

    def __init__(
        self,
        make: Callable[[], Any],
        fatal: FatalErrors,
        topic: str,
        sends: Mapping[int, Sends],
        now_ms: Callable[[], int],
        flush_s: float,
        *,
        rate: float,
        record_bytes: int,
        max_records: int,
    ) -> None:
        super().__init__(make, fatal, topic, sends, now_ms, flush_s)
        self._rate = rate
        self._record_bytes = record_bytes
        self._max_records = max_records

    def send_all(self) -> None:
        partitions = sorted(self._sends)
        sent = 0
        began_ms = self._now_ms()
        while not self.stopping.is_set() and sent < self._max_records:
            room = min(_BURST, MAX_IN_FLIGHT - self._in_flight, self._max_records - sent)
            if self._rate:
                due = int((self._now_ms() - began_ms) * self._rate / 1000) - sent
                if due > self._rate:
                    # A stall is not made up for by a flood.
                    began_ms += int((due - self._rate) * 1000 / self._rate)
                room = min(room, due)
            for number in range(sent, sent + max(room, 0)):
                self.produce(partitions[number % len(partitions)], self._record_bytes)
            sent += max(room, 0)
            self.poll(0 if room > 0 else _IDLE_POLL_S)


class Probe(Sender):
    """Now and then sends a record, once: an ordinary one and one too large for the topic, which must not be read."""

    refusals = REFUSALS_OF_ONE_TRY

    def __init__(
        self,
        make: Callable[[], Any],
        fatal: FatalErrors,
        topic: str,
        sends: Mapping[int, Sends],
        now_ms: Callable[[], int],
        flush_s: float,
        *,
        record_bytes: int,
        too_large_bytes: int,
    ) -> None:
        super().__init__(make, fatal, topic, sends, now_ms, flush_s)
        self._sizes = (record_bytes, too_large_bytes)

    def send_all(self) -> None:
        number = 0
        partitions = sorted(self._sends)
        while not self.stopping.wait(_PROBE_EVERY_S):
            # Sizes change faster than partitions, so that each partition gets both.
            self.produce(partitions[number // 2 % len(partitions)], self._sizes[number % 2])
            number += 1
            self.poll(0)
