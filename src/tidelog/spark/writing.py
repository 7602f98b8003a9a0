"""What a task of the sink does: rows to batches by partition, each acknowledged before the task ends (K2).

Idempotent with `acks=all`, so that what has to be sent again is written once. A task that fails and runs again writes
its rows again: readers see them twice.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tidelog.client.client import one_line
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.kernel import Encoder, Filled
from tidelog.spark.connections import CONNECTIONS
from tidelog.spark.sink_options import SinkOptions
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import read_header
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

if TYPE_CHECKING:
    import pyarrow as pa

# Batches under way at once, over all partitions: with what the encoder fills, all that a task holds.
_UNDER_WAY: Final = 8


class WriteFailed(RuntimeError):
    """Some rows may have been written, others have not. In the broker's words."""


def write(options: SinkOptions, batches: "Iterable[pa.RecordBatch]", task: int = 0) -> int:
    """Every row, or WriteFailed. How many. Rows without a key begin with another partition in each `task`."""
    try:
        return CONNECTIONS.run(_Writer(options, task).write(iter(batches)))
    except BaseExceptionGroup as group:
        # The first is the cause, the others were given up with it.
        first = group.exceptions[0]
        if isinstance(first, ApiError | ClientError):
            raise WriteFailed(one_line(first)) from group
        raise first from None


class _Writer:
    def __init__(self, options: SinkOptions, task: int) -> None:
        self._options = options
        self._encoder = Encoder(
            options.topic,
            batch_bytes=options.batch_bytes,
            codec=options.codec,
            level=options.level,
            first_partition=task,
        )
        # Rows of a partition keep their order: who comes behind a batch that is too large waits for its halves.
        self._turns: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._written = 0

    async def write(self, batches: "Iterator[pa.RecordBatch]") -> int:
        options, encoder = self._options, self._encoder
        # As Kafka's producers do, it waits for a cluster or a topic that is not there, or not yet.
        async with CONNECTIONS.client(options.access) as kept:
            self._client = client = kept.client
            self._producer = Producer(
                client,
                acks=options.acks,
                idempotent=options.is_idempotent,
                delivery_timeout_s=options.delivery_timeout_s,
                request_timeout_s=options.access.connection.request_timeout_s,
            )
            self._room = asyncio.Semaphore(_UNDER_WAY)
            async with asyncio.TaskGroup() as sending:
                # Spark is waited for in a thread: what is under way goes on meanwhile.
                while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                    counts = {topic: await self._partitions(topic) for topic in encoder.unknown_topics(batch)}
                    if counts:
                        await self._send_all(encoder.tell(counts), sending)
                    await self._send_all(encoder.add(batch, _now_ms()), sending)
                await self._send_all(encoder.flush(), sending)
        return self._written

    async def _partitions(self, topic: str) -> int:
        """Kafka's brokers say that there is no such topic while they make one."""
        found = await self._client.retrying(
            lambda: self._client.topic(topic, allow_auto_create=True), timeout_s=self._options.max_block_s
        )
        return len(found.partitions)

    async def _send_all(self, filled: Iterator[Filled], sending: asyncio.TaskGroup) -> None:
        for each in filled:
            await self._room.acquire()
            sending.create_task(self._send(each))

    async def _send(self, filled: Filled) -> None:
        try:
            async with self._turns[filled.topic, filled.partition]:
                await self._send_next(filled)
        finally:
            self._room.release()

    async def _send_next(self, filled: Filled) -> None:
        count = read_header(filled.batch).record_count
        try:
            await self._producer.send_batch(filled.topic, filled.partition, filled.batch)
        except ApiError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE or count == 1:
                raise
            # The topic takes less than is usual: nothing of it was written.
            _, records = decode_batch(filled.batch)
            await self._send_halves(filled, records)
        self._written += count

    async def _send_halves(self, filled: Filled, records: list[Record]) -> None:
        half = len(records) // 2
        for part in (records[:half], records[half:]):
            try:
                encoded = encode_batch(part, codec=self._options.codec, compression_level=self._options.level)
                await self._producer.send_batch(filled.topic, filled.partition, bytearray(encoded))
            except ApiError as error:
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE or len(part) == 1:
                    raise
                await self._send_halves(filled, part)


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - a task is handed no clock
