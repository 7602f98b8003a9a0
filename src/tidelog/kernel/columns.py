"""Arrow columns that grow record by record, up to a bound, and the schema they have.

The schema is that of Spark's Kafka source, field for field as Spark turns it into Arrow: a batch that differs in a
name, a type or a flag is refused there.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.kernel import native
from tidelog.kernel.jit import Array

# Offsets within a column have 32 bits; what one record may add to `max_bytes` has to fit as well.
MOST_BYTES: Final = 2**30
MOST_ROWS: Final = 2**20

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS: Final = pa.list_(pa.field("element", _HEADER))

# Buffers larger than this many times what is in them are not handed out: whoever keeps batches would keep air.
_MOST_AIR: Final = 2


def schema(*, headers: bool, epoch: bool) -> pa.Schema:
    """Of the batches that are built: with the options `includeHeaders` and `includeEpoch` of the source."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", _TIMESTAMP),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", _HEADERS))
    if epoch:
        fields.append(pa.field("leaderEpoch", pa.int32()))
    return pa.schema(fields)


class Columns:
    """What will be one RecordBatch. `native.fill` writes into the arrays and moves `at`.

    Invariant: every array has room for what `at` counts, and one element more where ends are kept.
    """

    def __init__(
        self, topic: str, partition: int, *, headers: bool, epoch: bool, max_rows: int, max_bytes: int
    ) -> None:
        if not 0 < max_rows <= MOST_ROWS or not 0 < max_bytes <= MOST_BYTES:
            raise ValueError(
                f"{max_rows} rows or {max_bytes} bytes: at most {MOST_ROWS} and {MOST_BYTES}, at least one"
            )
        self.schema = schema(headers=headers, epoch=epoch)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.with_headers = headers
        self._with_epoch = epoch
        # The same in every row: made once and cut to length.
        self._topics = pa.repeat(pa.scalar(topic, pa.string()), max_rows)
        self._partitions = pa.repeat(pa.scalar(partition, pa.int32()), max_rows)
        self.keys = self.values = self.names = self.header_values = np.empty(0, np.uint8)
        self.at: Array = np.zeros(native.COUNTERS, np.int64)
        self._begin()

    def _begin(self) -> None:
        # The next batch will be much like the last one, and a quarter larger at most.
        last = self.at
        self.keys = self._room_for(last[native.KEY_BYTES])
        self.values = self._room_for(last[native.VALUE_BYTES])
        self.names = self._room_for(last[native.NAME_BYTES])
        self.header_values = self._room_for(last[native.HEADER_VALUE_BYTES])
        self.at = np.zeros(native.COUNTERS, np.int64)
        self.longs: Array = np.empty((native.LONGS, self.max_rows), np.int64)
        self.ints: Array = np.empty((native.INTS, self.max_rows + 1), np.int32)
        self.ints[:, 0] = 0
        self.bitmaps: Array = np.zeros((native.BITMAPS, -(-self.max_rows // 8)), np.uint8)
        self.header_ints: Array = np.zeros((native.HEADER_INTS, 1), np.int32)
        self.header_bitmap: Array = np.zeros(0, np.uint8)

    def _room_for(self, size: int) -> Array:
        return np.empty(min(size + size // 4, self.max_bytes), np.uint8)

    @property
    def rows(self) -> int:
        return int(self.at[native.ROWS])

    @property
    def full(self) -> bool:
        return self.rows >= self.max_rows

    def reserve(
        self, rows: int, keys: int, values: int, headers: int, names: int, header_values: int, largest: int
    ) -> None:
        """Make room for so many more, but for no more than `max_bytes` in all, or one record that is larger.

        What has to grow grows once, if the rows to come are like these: memory that is not touched costs nothing.
        """
        most = max(self.max_bytes, largest)
        at = self.at.tolist()
        times = max((self.max_rows - at[native.ROWS]) / rows, 1.0)
        self.keys = _grown(self.keys, at[native.KEY_BYTES], keys, times, most)
        self.values = _grown(self.values, at[native.VALUE_BYTES], values, times, most)
        if self.with_headers and headers:
            self.names = _grown(self.names, at[native.NAME_BYTES], names, times, most)
            self.header_values = _grown(self.header_values, at[native.HEADER_VALUE_BYTES], header_values, times, most)
            self._reserve_headers(at[native.HEADERS], headers, times, most // native.HEADER_COST)

    def _reserve_headers(self, used: int, more: int, times: float, most: int) -> None:
        room = self.header_ints.shape[1] - 1
        if used + more <= room or most <= room:
            return
        room = min(used + int(more * times), most)
        ints = np.zeros((native.HEADER_INTS, room + 1), np.int32)
        ints[:, : used + 1] = self.header_ints[:, : used + 1]
        bitmap = np.zeros(-(-room // 8), np.uint8)
        bitmap[: self.header_bitmap.size] = self.header_bitmap
        self.header_ints = ints
        self.header_bitmap = bitmap

    def take(self) -> pa.RecordBatch:
        """What there is as a batch that nothing will change any more; the columns begin anew."""
        at = self.at
        rows = self.rows
        columns = [
            self._binary(self.keys, native.KEY_ENDS, native.KEYS_VALID, int(at[native.NULL_KEYS])),
            self._binary(self.values, native.VALUE_ENDS, native.VALUES_VALID, int(at[native.NULL_VALUES])),
            self._topics.slice(0, rows),
            self._partitions.slice(0, rows),
            _fixed(pa.int64(), rows, self.longs[native.OFFSETS]),
            _fixed(_TIMESTAMP, rows, self.longs[native.TIMESTAMPS]),
            _fixed(pa.int32(), rows, self.ints[native.TIMESTAMP_TYPES]),
        ]
        if self.with_headers:
            columns.append(self._headers(rows))
        if self._with_epoch:
            columns.append(_fixed(pa.int32(), rows, self.ints[native.EPOCHS]))
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        self._begin()
        return batch

    def _binary(self, data: Array, ends: int, valid: int, nulls: int) -> pa.Array:
        rows = self.rows
        return _variable(pa.binary(), rows, self.ints[ends], data, self.bitmaps[valid] if nulls else None, nulls)

    def _headers(self, rows: int) -> pa.Array:
        count = int(self.at[native.HEADERS])
        nulls = int(self.at[native.NULL_HEADER_VALUES])
        names = _variable(pa.string(), count, self.header_ints[native.NAME_ENDS], self.names, None, 0)
        ends = self.header_ints[native.HEADER_VALUE_ENDS]
        values = _variable(pa.binary(), count, ends, self.header_values, self.header_bitmap if nulls else None, nulls)
        structs = pa.Array.from_buffers(_HEADER, count, [None], 0, children=[names, values])
        buffers = [
            _packed(self.bitmaps[native.HEADERS_VALID], -(-rows // 8)),
            _packed(self.ints[native.HEADER_ENDS], rows + 1),
        ]
        return pa.Array.from_buffers(_HEADERS, rows, buffers, int(self.at[native.NULL_HEADERS]), children=[structs])


def _grown(buffer: Array, used: int, more: int, times: float, most: int) -> Array:
    """The buffer, or a larger one with the same beginning."""
    if used + more <= buffer.size or most <= buffer.size:
        return buffer
    larger = np.empty(min(used + int(more * times), most), np.uint8)
    larger[:used] = buffer[:used]
    return larger


def _fixed(kind: pa.DataType, rows: int, numbers: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, _packed(numbers, rows)], 0)


def _variable(kind: pa.DataType, rows: int, ends: Array, data: Array, valid: Array | None, nulls: int) -> pa.Array:
    bitmap = None if valid is None else _packed(valid, -(-rows // 8))
    return pa.Array.from_buffers(kind, rows, [bitmap, _packed(ends, rows + 1), _packed(data, int(ends[rows]))], nulls)


def _packed(array: Array, size: int) -> pa.Buffer:
    used = array[:size]
    return pa.py_buffer(used.copy() if array.size > _MOST_AIR * size else used)
