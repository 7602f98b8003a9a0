"""Consumers, each in a thread of its own: every partition from the beginning, all the time, without a group."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.verify.producing import Worker
from tidelog.verify.reads import Reads
from tidelog.verify.values import decode

_POLL_RECORDS: Final = 2_000
_POLL_S: Final = 0.1
_REOPEN_AFTER_S: Final = 0.2


class Reader(Worker):
    """Keeps what it reads in its `Reads`, which no other thread writes; after an error it goes on where it was."""

    def __init__(
        self,
        make: Callable[[], Any],
        topic_partition: Callable[..., Any],
        topic: str,
        reads: Mapping[int, Reads],
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__()
        # How often an error made it begin anew, and the last one.
        self.reopened = 0
        self.last_error: str | None = None
        self._make = make
        self._topic_partition = topic_partition
        self._topic = topic
        self._reads = reads
        self._now_ms = now_ms

    def work(self) -> None:
        consumer = self._open()
        try:
            while not self.stopping.is_set():
                error = self._take(consumer.consume(_POLL_RECORDS, _POLL_S))
                if error is not None:
                    self.reopened += 1
                    self.last_error = error
                    consumer.close()
                    self.stopping.wait(_REOPEN_AFTER_S)
                    consumer = self._open()
        finally:
            consumer.close()

    def has_read(self, ends: Mapping[int, int]) -> bool:
        return all(self._reads[partition].position >= end for partition, end in ends.items())

    def _open(self) -> Any:
        consumer = self._make()
        consumer.assign(
            [self._topic_partition(self._topic, partition, reads.position) for partition, reads in self._reads.items()]
        )
        return consumer

    def _take(self, messages: list[Any]) -> str | None:
        """Keeps the records of one poll; returns the first error, behind which nothing of the poll is used."""
        now_ms = self._now_ms()
        for partition in {message.partition() for message in messages if message.error() is None}:
            self._reads[partition].mark(now_ms)
        for message in messages:
            if message.error() is not None:
                return str(message.error())
            partition = message.partition()
            self._reads[partition].add(message.offset(), decode(message.value(), partition))
        return None
