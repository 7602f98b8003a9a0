"""The log as it is in the end: every partition from its beginning to its high watermark, by a new consumer."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tidelog.verify.history import FinalLog
from tidelog.verify.producing import Worker
from tidelog.verify.reads import Reads
from tidelog.verify.values import decode

_POLL_RECORDS: Final = 5_000
_POLL_S: Final = 0.2
_ASK_S: Final = 5.0


class FinalRead(Worker):
    """Fills `logs`; a partition it could not read to its end says why."""

    def __init__(
        self,
        make: Callable[[], Any],
        kafka: Any,
        topic: str,
        partitions: Iterable[int],
        now_ms: Callable[[], int],
        timeout_s: float,
    ) -> None:
        super().__init__()
        self.logs = {
            partition: FinalLog(reads=Reads(partition), incomplete="the final read did not start")
            for partition in partitions
        }
        self._make = make
        self._kafka = kafka
        self._topic = topic
        self._now_ms = now_ms
        self._timeout_s = timeout_s

    def work(self) -> None:
        deadline = self._now_ms() + int(self._timeout_s * 1000)
        consumer = self._make()
        try:
            for partition, log in self.logs.items():
                self._find_ends(consumer, partition, log, deadline)
            known = [partition for partition, log in self.logs.items() if log.incomplete is None]
            consumer.assign(
                [self._kafka.TopicPartition(self._topic, each, self.logs[each].start_offset) for each in known]
            )
            self._read(consumer, known, deadline)
        finally:
            consumer.close()

    def _find_ends(self, consumer: Any, partition: int, log: FinalLog, deadline: int) -> None:
        where = self._kafka.TopicPartition(self._topic, partition)
        while not self.stopping.is_set():
            try:
                log.start_offset, log.end_offset = consumer.get_watermark_offsets(where, _ASK_S, cached=False)
                log.incomplete = None
                return
            except self._kafka.KafkaException as error:
                log.incomplete = f"its offsets are unknown: {error}"
                if self._now_ms() > deadline:
                    return

    def _read(self, consumer: Any, partitions: list[int], deadline: int) -> None:
        last_error = "no more records arrived"
        while not self.stopping.is_set():
            left = [each for each in partitions if self.logs[each].reads.position < self.logs[each].end_offset]
            if not left or self._now_ms() > deadline:
                break
            for message in consumer.consume(_POLL_RECORDS, _POLL_S):
                if message.error() is not None:
                    last_error = str(message.error())
                    continue
                partition = message.partition()
                self.logs[partition].reads.add(message.offset(), decode(message.value(), partition))
        for partition in partitions:
            if self.logs[partition].reads.position < self.logs[partition].end_offset:
                self.logs[partition].incomplete = last_error
