"""From Arrow columns to record batches, by partition: what a sink writes. No Python object per row.

Rows with a key go where Java's clients would put them; rows without one fill the batch of one partition and go on with
the next; a column may say the partition itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.kernel import native_rows, rows
from tidelog.kernel.jit import Array, first_call
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    BatchHeader,
    write_header,
)
from tidelog.wire.records.compression import compress
from tidelog.wire.records.plain import Record, encode_batch

# However many partitions there are, what is being filled is held in so much; with very many, batches become small.
MOST_HELD: Final = 32 * 1024 * 1024
_LEAST_CAPACITY: Final = 1024


class BadRow(ValueError):
    """A row that cannot be written."""


class Filled(NamedTuple):
    """A batch for one partition, whole but for who sends it (`wire.records.batch.stamp_producer`)."""

    topic: str
    partition: int
    batch: bytearray


@dataclass(slots=True)
class _Topic:
    partitions: int
    first_slot: int
    # The partition of rows without a key, before the remainder is taken.
    sticky: int


class Encoder:
    """Invariant: `_state` has a column and `_out` `_capacity` bytes for each partition of every topic in `_topics`."""

    def __init__(
        self,
        topic: str | None,
        *,
        batch_bytes: int,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        first_partition: int = 0,
    ) -> None:
        """`topic` goes before the column of that name. Rows without a key begin with `first_partition`."""
        load()
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._codec = codec
        self._level = level
        self._first_partition = first_partition
        self._topics: dict[str, _Topic] = {}
        self._slots: list[tuple[str, int]] = []
        self._lay_out()

    def unknown_topics(self, batch: pa.RecordBatch) -> list[str]:
        """Those of the rows whose number of partitions has not been told."""
        if self._topic is not None:
            named = [self._topic]
        else:
            named = [each for each in pc.unique(batch.column("topic")).to_pylist() if each is not None]
        return [each for each in named if each not in self._topics]

    def tell(self, partitions: dict[str, int]) -> Iterator[Filled]:
        """How many partitions topics have. Batches under way are given first: their places change."""
        yield from self.flush()
        for topic, count in partitions.items():
            self._topics[topic] = _Topic(count, len(self._slots), self._first_partition)
            self._slots += [(topic, partition) for partition in range(count)]
        self._lay_out()

    def add(self, batch: pa.RecordBatch, now_ms: int) -> Iterator[Filled]:
        """Batches that became full. All topics have been told. BadRow leaves the rows before it where they are."""
        columns = _Columns.of(batch, self._topic)
        told = [self._topics[name] for name in columns.topics]
        topics = np.zeros((native_rows.TOPIC_FACTS, len(told)), np.int64)
        for index, topic in enumerate(told):
            topics[:, index] = topic.first_slot, topic.partitions, topic.sticky
        row = 0
        while True:
            row, why, slot = native_rows.append(
                row,
                batch.num_rows,
                now_ms,
                columns.keys,
                columns.values,
                columns.headers,
                columns.partitions,
                columns.partitions_valid,
                columns.row_topics,
                columns.row_topics_valid,
                topics,
                self._capacity,
                BATCH_OVERHEAD,
                self._state,
                self._out,
            )
            if why == native_rows.DONE:
                return
            if why == native_rows.FULL:
                yield self._take(slot)
                self._move_on(slot, columns.topics, topics)
            elif why == native_rows.TOO_LARGE:
                yield self._alone(batch.slice(row, 1), slot, now_ms)
                row += 1
            else:
                raise _bad_row(why, slot, columns, row, told)

    def flush(self) -> Iterator[Filled]:
        """What has not been given yet."""
        for slot in np.flatnonzero(self._state[native_rows.COUNTS]).tolist():
            yield self._take(slot)

    def _lay_out(self) -> None:
        slots = max(len(self._slots), 1)
        self._capacity = max(min(self._batch_bytes, MOST_HELD // slots), _LEAST_CAPACITY)
        # Memory that is not touched costs nothing.
        self._out: Array = np.empty(slots * self._capacity, np.uint8)
        self._state: Array = np.zeros((native_rows.STATES, slots), np.int64)

    def _move_on(self, slot: int, names: list[str], topics: Array) -> None:
        """Rows without a key go to the next partition, if it was theirs that became full."""
        name, partition = self._slots[slot]
        topic = self._topics[name]
        if topic.sticky % topic.partitions == partition:
            topic.sticky += 1
            topics[native_rows.STICKY, names.index(name)] = topic.sticky

    def _take(self, slot: int) -> Filled:
        topic, partition = self._slots[slot]
        end, count, base_timestamp, max_timestamp = self._state[:, slot].tolist()
        start = slot * self._capacity
        if self._codec is Codec.NONE:
            batch = bytearray(self._out[start : start + end].data)
        else:
            packed = compress(self._codec, self._out[start + BATCH_OVERHEAD : start + end].data, self._level)
            batch = bytearray(BATCH_OVERHEAD) + packed
        header = BatchHeader(
            base_offset=0,
            batch_length=len(batch) - LOG_OVERHEAD,
            partition_leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self._codec,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=-1,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        )
        write_header(batch, header)
        self._state[native_rows.COUNTS, slot] = 0
        return Filled(topic, partition, batch)

    def _alone(self, row: pa.RecordBatch, slot: int, now_ms: int) -> Filled:
        """A record that is larger than a batch should be has one to itself, made by the plain encoder."""
        topic, partition = self._slots[slot]
        (found,) = row.to_pylist()
        headers = tuple((each["key"], each["value"]) for each in found.get("headers") or ())
        record = Record(timestamp=now_ms, key=_bytes(found.get("key")), value=_bytes(found["value"]), headers=headers)
        return Filled(
            topic, partition, bytearray(encode_batch([record], codec=self._codec, compression_level=self._level))
        )


class _Columns(NamedTuple):
    """Of one Arrow batch. `topics` are the names that `row_topics` count."""

    keys: native_rows.Blobs
    values: native_rows.Blobs
    headers: native_rows.HeaderLists
    partitions: Array
    partitions_valid: native_rows.Bits
    topics: list[str]
    row_topics: Array
    row_topics_valid: native_rows.Bits

    @staticmethod
    def of(batch: pa.RecordBatch, topic: str | None) -> "_Columns":
        names = set(batch.schema.names)
        topics, row_topics, row_topics_valid = [topic or ""], rows.NO_INTS, rows.NO_BITS
        if topic is None:
            encoded = pc.dictionary_encode(batch.column("topic"))
            topics = encoded.dictionary.to_pylist()
            row_topics, row_topics_valid = rows.ints(encoded.indices), rows.bits(encoded.indices)
        return _Columns(
            keys=rows.blobs(batch.column("key")) if "key" in names else rows.NO_BLOBS,
            values=rows.blobs(batch.column("value")),
            headers=rows.header_lists(batch.column("headers")) if "headers" in names else rows.NO_HEADERS,
            partitions=rows.ints(batch.column("partition")) if "partition" in names else rows.NO_INTS,
            partitions_valid=rows.bits(batch.column("partition")) if "partition" in names else rows.NO_BITS,
            topics=topics,
            row_topics=row_topics,
            row_topics_valid=row_topics_valid,
        )


def _bad_row(why: int, partition: int, columns: _Columns, row: int, told: list[_Topic]) -> BadRow:
    if why == native_rows.NO_TOPIC:
        return BadRow("a row has no topic, and the option topic is not set")
    if why == native_rows.BAD_PARTITION:
        topic = int(columns.row_topics[row]) if columns.row_topics.size else 0
        there_are = told[topic].partitions
        return BadRow(f"a row is for partition {partition} of {columns.topics[topic]}, which has {there_are}")
    return BadRow(
        "a row has a header without a key" if why == native_rows.NAMELESS_HEADER else "a row has a header that is null"
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@cache
def load() -> None:
    """Compile what the encoder calls, or read it from the cache."""
    topics = np.zeros((native_rows.TOPIC_FACTS, 1), np.int64)
    state = np.zeros((native_rows.STATES, 1), np.int64)
    out = np.empty(1, np.uint8)
    first_call(
        native_rows.append,
        0,
        0,
        0,
        rows.NO_BLOBS,
        rows.NO_BLOBS,
        rows.NO_HEADERS,
        rows.NO_INTS,
        rows.NO_BITS,
        rows.NO_INTS,
        rows.NO_BITS,
        topics,
        1,
        0,
        state,
        out,
    )
