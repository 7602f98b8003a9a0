"""What a task of the sink does: rows to batches by partition, each acknowledged before the task ends (K2).

Idempotent with `acks=all`, so that what has to be sent again is written once. A task that fails and runs again writes
its rows again: readers see them twice.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.client import Client, one_line
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer
from tidelog.core.ids import TopicPartition
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import Record

if TYPE_CHECKING:
    import pyarrow as pa

# What a record takes beside its bytes, at most, so that a batch's size is known before it is made.
_OVERHEAD: Final = 32
# Batches under way at once, over all partitions: with what is being filled, all that a task holds.
_UNDER_WAY: Final = 8
_MOST_HELD: Final = 32 * 1024 * 1024


class BadRow(ValueError):
    """A row that cannot be written."""


@dataclass(slots=True)
class _Filling:
    records: list[Record] = field(default_factory=list)
    size: int = 0


class WriteFailed(RuntimeError):
    """Some rows may have been written, others have not. In the broker's words."""


def write(options: SinkOptions, batches: "Iterable[pa.RecordBatch]", task: int = 0) -> int:
    """Every row, or WriteFailed. How many. Rows without a key begin with another partition in each `task`."""
    try:
        return asyncio.run(_Writer(options, task).write(batches))
    except BaseExceptionGroup as group:
        # The first is the cause, the others were given up with it.
        first = group.exceptions[0]
        if isinstance(first, ApiError | ClientError):
            raise WriteFailed(one_line(first)) from group
        raise first from None


class _Writer:
    def __init__(self, options: SinkOptions, task: int) -> None:
        self._options = options
        self._task = task
        self._filling: dict[TopicPartition, _Filling] = {}
        self._counts: dict[str, int] = {}
        # Rows without a key go to one partition until its batch is full, and then to the next.
        self._sticky: dict[str, int] = {}
        self._written = 0
        # Bytes of what is being filled, over all partitions.
        self._held = 0

    async def write(self, batches: "Iterable[pa.RecordBatch]") -> int:
        options = self._options
        settings = ConnectionSettings(client_id=options.client_id)
        async with Client(options.bootstrap, settings=settings) as client:
            self._client = client
            self._producer = Producer(
                client, acks=options.acks, codec=options.codec, delivery_timeout_s=options.delivery_timeout_s
            )
            async with asyncio.TaskGroup() as sending:
                self._room = asyncio.Semaphore(_UNDER_WAY)
                for batch in batches:
                    for row in _rows(batch, options.columns):
                        await self._add(row, sending)
                for tp, filling in self._filling.items():
                    await self._send(tp, filling.records, sending)
        return self._written

    async def _add(self, row: dict[str, Any], sending: asyncio.TaskGroup) -> None:
        topic = self._options.topic or row.get("topic")
        if topic is None:
            raise BadRow("a row has no topic, and the option topic says none either")
        key, value = _bytes(row.get("key")), _bytes(row["value"])
        headers = tuple((name, content) for name, content in row.get("headers") or ())
        if any(name is None for name, _ in headers):
            raise BadRow("a row has a header without a key")
        tp = TopicPartition(topic, await self._partition(topic, row.get("partition"), key))
        size = _OVERHEAD + len(key or b"") + len(value or b"")
        size += sum(_OVERHEAD + len(name) + len(content or b"") for name, content in headers)
        filling = self._filling.setdefault(tp, _Filling())
        if filling.records and filling.size + size > self._options.batch_bytes:
            self._sticky[topic] = self._sticky.get(topic, self._task) + 1
            await self._send(tp, filling.records, sending)
            self._held -= filling.size
            filling = self._filling[tp] = _Filling()
        filling.records.append(Record(timestamp=_now_ms(), key=key, value=value, headers=headers))
        filling.size += size
        self._held += size
        if self._held > _MOST_HELD:
            fullest = max(self._filling, key=lambda each: self._filling[each].size)
            await self._send(fullest, self._filling[fullest].records, sending)
            self._held -= self._filling.pop(fullest).size

    async def _partition(self, topic: str, given: int | None, key: bytes | None) -> int:
        count = self._counts.get(topic)
        if count is None:
            found = await self._client.retrying(lambda: self._client.topic(topic, allow_auto_create=True))
            count = self._counts[topic] = len(found.partitions)
        if given is not None:
            if not 0 <= given < count:
                raise BadRow(f"a row is for partition {given} of {topic}, which has {count}")
            return given
        if key is not None:
            return partition_for_key(key, count)
        return self._sticky.setdefault(topic, self._task) % count

    async def _send(self, tp: TopicPartition, records: list[Record], sending: asyncio.TaskGroup) -> None:
        await self._room.acquire()
        sending.create_task(self._send_one(tp, records))

    async def _send_one(self, tp: TopicPartition, records: list[Record]) -> None:
        try:
            await self._send_or_split(tp, records)
        finally:
            self._room.release()
        self._written += len(records)

    async def _send_or_split(self, tp: TopicPartition, records: list[Record]) -> None:
        try:
            await self._producer.send(tp.topic, tp.partition, records)
        except ApiError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE or len(records) == 1:
                raise
            # The topic takes less than is usual: nothing of it was written.
            half = len(records) // 2
            await self._send_or_split(tp, records[:half])
            await self._send_or_split(tp, records[half:])


def _rows(batch: "pa.RecordBatch", columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    values = [batch.column(name).to_pylist() for name in columns]
    if "headers" in columns:
        at = columns.index("headers")
        values[at] = [None if row is None else [(each["key"], each["value"]) for each in row] for row in values[at]]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - a task is handed no clock
