"""From the bytes of a fetch, or of a segment, to Arrow record batches."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.kernel import native
from tidelog.kernel.columns import Columns
from tidelog.kernel.jit import Array, first_call
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.aborted import Aborted, AbortedTransactions
from tidelog.wire.records.attributes import TIMESTAMP_TYPE_MASK
from tidelog.wire.records.batch import BATCH_OVERHEAD, BatchHeader, crc_ok, iter_headers
from tidelog.wire.records.compression import DEFAULT_MAX_OUTPUT, decompress
from tidelog.wire.records.plain import MIN_RECORD_SIZE, decode_batch

DEFAULT_MAX_ROWS: Final = 32_768
DEFAULT_MAX_BYTES: Final = 8 * 1024 * 1024
# Names that are not UTF-8 grow threefold, and a column of them has to be below 2 GiB.
MOST_DECOMPRESSED: Final = 2**29

_BASE_OFFSET_SIZE: Final = 8
_REASONS: Final = {
    native.PAST_END: "runs past the end of its record or batch",
    native.BAD_VARINT: "has a varint of too many bits",
    native.BAD_SIZE: "has a size that the batch does not have",
    native.BAD_LENGTH: "has a field longer than itself, or of a negative length",
    native.BAD_HEADER_COUNT: "is too short for its number of headers",
    native.NAMELESS_HEADER: "has a header without a name",
    native.WRONG_END: "does not end at its stated length",
    native.BAD_TIMESTAMP: "has a timestamp beyond 64 bits of microseconds",
    native.BAD_OFFSET: "has an offset outside of its batch",
}


class CorruptBatch(WireError):
    """A batch that is not what it claims to be. None of its records were handed out."""

    def __init__(self, topic: str, partition: int, base_offset: int | None, reason: str) -> None:
        where = "a batch without a whole header" if base_offset is None else f"the batch at offset {base_offset}"
        super().__init__(f"{topic}-{partition}, {where}: {reason}")
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.reason = reason


class Decoder:
    """The records of one partition in [start, end) as Arrow batches of at most `max_rows` rows and `max_bytes` bytes.

    Bytes come in order, by `feed`, as often as there are answers; `flush` gives what is left over. A batch is given
    when it is full, so that small answers make no small batches; a record larger than `max_bytes` makes one of its own.
    Memory: the bytes fed, one batch decompressed, two Arrow batches.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        headers: bool = False,
        epoch: bool = False,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_decompressed: int = DEFAULT_MAX_OUTPUT,
        verify_crc: bool = True,
    ) -> None:
        if not 0 <= start <= end <= native.MAX_INT64:
            raise ValueError(f"no range of offsets: {start} to {end}")
        if not 0 < max_decompressed <= MOST_DECOMPRESSED:
            raise ValueError(
                f"a batch may be decompressed to {MOST_DECOMPRESSED} bytes at most, not {max_decompressed}"
            )
        load()
        self.topic = topic
        self.partition = partition
        self.end = end
        # Where the next fetch begins: all below has been seen, whether it was there or not.
        self.next_offset = start
        # Of the batch that came last in the range; -1 before the first.
        self.last_epoch = -1
        self._columns = Columns(topic, partition, headers=headers, epoch=epoch, max_rows=max_rows, max_bytes=max_bytes)
        self._max_decompressed = max_decompressed
        self._verify_crc = verify_crc

    @property
    def schema(self) -> pa.Schema:
        return self._columns.schema

    @property
    def done(self) -> bool:
        return self.next_offset >= self.end

    def feed(
        self, records: Buffer, aborted: Iterable[Aborted] | None = None, *, partial_tail: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Batches that became full. Nothing happens but by iterating; until it ends, `records` must stay as they are.

        `aborted` are the transactions that the answer names: their records are left out. None reads uncommitted data.
        With `partial_tail` a last batch that was cut, as fetches cut it, is left for the next answer.
        """
        view = memoryview(records)
        transactions = None if aborted is None else AbortedTransactions(aborted)
        end = self.end
        for pos, header in self._walk(view, partial_tail):
            if header.base_offset >= end:
                self.next_offset = end
            if self.next_offset >= end:
                return
            last_offset = header.base_offset + header.last_offset_delta
            data = self._data(view, pos, header, last_offset, transactions)
            if data is not None:
                yield from self._append(data, header, last_offset)
            if last_offset >= self.next_offset:
                self.next_offset = min(last_offset + 1, end)
                self.last_epoch = header.partition_leader_epoch

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What has not been given yet: a batch, or none."""
        if self._columns.rows:
            yield self._columns.take()

    def _walk(self, view: memoryview, partial_tail: bool) -> Iterator[tuple[int, BatchHeader]]:
        after = 0
        try:
            for pos, header in iter_headers(view, partial_tail=partial_tail):
                yield pos, header
                after = pos + header.size_in_bytes
        except WireError as error:
            head = view[after : after + _BASE_OFFSET_SIZE]
            base_offset = int.from_bytes(head, "big", signed=True) if len(head) == _BASE_OFFSET_SIZE else None
            raise CorruptBatch(self.topic, self.partition, base_offset, str(error)) from error

    def _data(
        self,
        view: memoryview,
        pos: int,
        header: BatchHeader,
        last_offset: int,
        transactions: AbortedTransactions | None,
    ) -> Array | None:
        """The records of a batch, decompressed; None if none of them are asked for."""
        if not 0 <= header.base_offset <= last_offset <= native.MAX_INT64:
            raise self._corrupt(header, f"offsets {header.base_offset} to {last_offset}")
        # Before anything it says is believed: a wrong bit must not make records go without a word.
        if self._verify_crc and not crc_ok(view, header, pos):
            raise self._corrupt(header, "it does not match its CRC")
        if header.is_control:
            if transactions is not None:
                self._see_marker(view[pos : pos + header.size_in_bytes], header, transactions)
            return None
        if transactions is not None and transactions.covers(header):
            return None
        if last_offset < self.next_offset:
            return None
        packed = view[pos + BATCH_OVERHEAD : pos + header.size_in_bytes]
        try:
            plain = decompress(header.codec, packed, self._max_decompressed)
        except WireError as error:
            raise self._corrupt(header, str(error)) from error
        if not 0 <= header.record_count * MIN_RECORD_SIZE <= len(plain):
            raise self._corrupt(header, f"{len(plain)} bytes cannot hold {header.record_count} records")
        return _read_only(plain)

    def _see_marker(self, batch: memoryview, header: BatchHeader, transactions: AbortedTransactions) -> None:
        try:
            _, records = decode_batch(batch, self._max_decompressed, verify_crc=False)
            transactions.see_marker(header, records)
        except WireError as error:
            raise self._corrupt(header, str(error)) from error

    def _append(self, data: Array, header: BatchHeader, last_offset: int) -> Iterator[pa.RecordBatch]:
        """Mostly a batch fits into the columns, and one pass is enough. No row leaves before its batch is checked."""
        columns = self._columns
        before = columns.at.copy()
        pos, left = self._fill(data, 0, header.record_count, header, last_offset)
        if left == 0 and pos == data.size:
            return
        log_append = bool(header.attributes & TIMESTAMP_TYPE_MASK)
        wrong, number, rows, keys, values, headers, names, header_values, largest = native.measure(
            data,
            header.record_count,
            header.base_offset,
            last_offset,
            header.max_timestamp if log_append else header.base_timestamp,
            log_append,
            self.next_offset,
            self.end,
        )
        if wrong < 0:
            columns.at = before
            raise self._wrong_record(header, wrong, number)
        while left:
            if not columns.full:
                columns.reserve(rows, keys, values, headers, names, header_values, largest)
                pos, left = self._fill(data, pos, left, header, last_offset)
                if pos < 0:
                    # It was checked a moment ago.
                    raise self._corrupt(header, "it was changed while it was read")
            if left:
                # A record that finds no room in columns without a row never would.
                assert columns.rows, f"no room for record {left} from the end of {header}"
                yield columns.take()

    def _fill(self, data: Array, pos: int, left: int, header: BatchHeader, last_offset: int) -> tuple[int, int]:
        columns = self._columns
        log_append = bool(header.attributes & TIMESTAMP_TYPE_MASK)
        return native.fill(
            data,
            pos,
            left,
            header.base_offset,
            last_offset,
            header.max_timestamp if log_append else header.base_timestamp,
            log_append,
            header.partition_leader_epoch,
            self.next_offset,
            self.end,
            columns.max_bytes,
            columns.with_headers,
            columns.at,
            columns.longs,
            columns.ints,
            columns.bitmaps,
            columns.keys,
            columns.values,
            columns.header_ints,
            columns.header_bitmap,
            columns.names,
            columns.header_values,
        )

    def _wrong_record(self, header: BatchHeader, wrong: int, number: int) -> CorruptBatch:
        if wrong == native.TRAILING_BYTES:
            return self._corrupt(header, f"bytes follow the last of {number} records")
        return self._corrupt(header, f"record {number} {_REASONS[wrong]}")

    def _corrupt(self, header: BatchHeader, reason: str) -> CorruptBatch:
        return CorruptBatch(self.topic, self.partition, header.base_offset, reason)


@cache
def load() -> None:
    """Compile the kernel or read it from the cache, if that has not been done: half a second or five."""
    columns = Columns("", 0, headers=True, epoch=True, max_rows=1, max_bytes=1)
    data = _read_only(b"")
    first_call(native.measure, data, 0, 0, 0, 0, False, 0, 0)
    first_call(
        native.fill,
        data,
        0,
        0,
        0,
        0,
        0,
        False,
        0,
        0,
        0,
        1,
        True,
        columns.at,
        columns.longs,
        columns.ints,
        columns.bitmaps,
        columns.keys,
        columns.values,
        columns.header_ints,
        columns.header_bitmap,
        columns.names,
        columns.header_values,
    )


def _read_only(plain: Buffer) -> Array:
    """Bytes as an array. Always of one type, or the kernel would be compiled once more."""
    data = np.frombuffer(plain, np.uint8)
    data.flags.writeable = False
    return data
