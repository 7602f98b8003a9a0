"""Sends lines as records: grouped by partition into batches, a bounded number of them in flight."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from tidelog.broker.clock import SystemWallClock
from tidelog.cli.output import CommandFailed
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

_BATCH_BYTES: Final = 512 * 1024
# Of a batch with one record, beside its key and value.
_OVERHEAD_AT_MOST: Final = 128
_BATCHES_IN_FLIGHT: Final = 8


def check_sizes(records: list[Record], codec: Codec, limit: int | None) -> None:
    """CommandFailed if a record is too large for a topic that accepts batches of `limit` bytes."""
    if limit is None:
        return
    for number, record in enumerate(records, start=1):
        # To encode a record takes time, and few are near the limit.
        if len(record.key or b"") + len(record.value or b"") + _OVERHEAD_AT_MOST <= limit:
            continue
        size = len(encode_batch([record], codec=codec))
        if size > limit:
            raise CommandFailed(f"line {number} makes a batch of {size} bytes; message.max.bytes is {limit}")


class LineSender:
    """Groups lines by partition and keeps a bounded number of batches in flight."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        key_separator: str | None,
        *,
        count_partitions: Callable[[list[Record]], Awaitable[int]],
        on_acknowledged: Callable[[int], None],
    ) -> None:
        """`count_partitions` gets the first valid records, before they are sent. It may create the topic."""
        self._producer = producer
        self._topic = topic
        self._count_partitions = count_partitions
        self._partitions = 0
        self._partition = partition
        self._separator = key_separator.encode() if key_separator is not None else None
        self._line_number = 0
        self._turn = 0
        # Called after each batch with the number of records so far.
        self._acknowledged = 0
        self._on_acknowledged = on_acknowledged

    async def run(self, chunks: AsyncIterator[list[bytes]]) -> int:
        """Sends everything and returns the number of records acknowledged."""
        try:
            await self._run(chunks)
        except ExceptionGroup as failures:
            # The first batch that fails cancels the others: its error is the reason.
            raise failures.exceptions[0] from None
        return self._acknowledged

    async def _run(self, chunks: AsyncIterator[list[bytes]]) -> None:
        sending: set[asyncio.Task[None]] = set()
        failure: CommandFailed | None = None
        async with asyncio.TaskGroup() as group:
            try:
                async for lines in chunks:
                    records = self._records(lines)
                    if not self._partitions:
                        self._partitions = await self._count_partitions(records)
                    for partition, batch in self._batches(records):
                        if len(sending) >= _BATCHES_IN_FLIGHT:
                            _, sending = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
                        sending.add(group.create_task(self._send(partition, batch)))
            except CommandFailed as error:
                # The batches in flight are still completed.
                failure = error
        if failure is not None:
            raise failure

    async def _send(self, partition: int, records: list[Record]) -> None:
        await self._producer.send(self._topic, partition, records)
        self._acknowledged += len(records)
        self._on_acknowledged(self._acknowledged)

    def _records(self, lines: list[bytes]) -> list[Record]:
        now_ms = SystemWallClock().now_ms()
        records = []
        for line in lines:
            self._line_number += 1
            key, value = self._split(line)
            records.append(Record(timestamp=now_ms, key=key, value=value))
        return records

    def _batches(self, records: list[Record]) -> list[tuple[int, list[Record]]]:
        # All lines of a chunk that have no key go to one partition, as with Kafka's sticky partitioner: the batches are
        # fewer and larger.
        keyless = self._turn % self._partitions
        self._turn += 1
        open_batches: dict[int, list[Record]] = {}
        sizes: dict[int, int] = {}
        full: list[tuple[int, list[Record]]] = []
        for record in records:
            key, value = record.key, record.value
            if self._partition is not None:
                partition = self._partition
            else:
                partition = keyless if key is None else partition_for_key(key, self._partitions)
            size = len(key or b"") + len(value or b"")
            # Before the record is added: a large record shares its batch with none, or the batch might be refused.
            if partition in open_batches and sizes[partition] + size > _BATCH_BYTES:
                full.append((partition, open_batches.pop(partition)))
            if partition not in open_batches:
                open_batches[partition], sizes[partition] = [], 0
            open_batches[partition].append(record)
            sizes[partition] += size
        return full + list(open_batches.items())

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self._separator is None:
            return None, line
        key, found, value = line.partition(self._separator)
        if not found:
            raise CommandFailed(f"line {self._line_number} has no {self._separator.decode()!r}: {line[:40]!r}")
        return key, value
