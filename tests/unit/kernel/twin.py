"""The dumb twin of the kernel: the plain decoder, and a loop over its records."""

import ctypes
import mmap
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from tidelog.kernel import Decoder
from tidelog.kernel.native import MAX_INT64, MAX_TIMESTAMP_MS
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.aborted import Aborted, AbortedTransactions
from tidelog.wire.records.batch import iter_headers
from tidelog.wire.records.plain import decode_batch

TOPIC = "orders"
PARTITION = 3

_PROT_NONE = 0

RowHeaders = list[tuple[str, bytes | None]] | None


class Row(NamedTuple):
    """What a row of the source says, less topic and partition."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_us: int
    timestamp_type: int
    headers: RowHeaders
    epoch: int


def twin_rows(records: Buffer, start: int, end: int, aborted: Iterable[Aborted] | None = None) -> list[Row]:
    """What the kernel has to give, or a WireError."""
    rows: list[Row] = []
    transactions = None if aborted is None else AbortedTransactions(aborted)
    for pos, header in iter_headers(records, partial_tail=True):
        if header.base_offset >= end:
            break
        if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > MAX_INT64:
            raise WireError("offsets that are none")
        batch = memoryview(records)[pos : pos + header.size_in_bytes]
        if header.is_control:
            if transactions is not None:
                transactions.see_marker(header, decode_batch(batch)[1])
            continue
        if transactions is not None and transactions.covers(header):
            continue
        if header.last_offset < start:
            continue
        for record in decode_batch(batch)[1]:
            if (
                not header.base_offset <= record.offset <= header.last_offset
                or abs(record.timestamp) > MAX_TIMESTAMP_MS
            ):
                raise WireError("an offset or a timestamp that no column holds")
            if start <= record.offset < end:
                headers = [(_replaced(name), value) for name, value in record.headers] or None
                rows.append(
                    Row(
                        record.key,
                        record.value,
                        record.offset,
                        record.timestamp * 1000,
                        int(header.timestamp_type),
                        headers,
                        header.partition_leader_epoch,
                    )
                )
        start = max(start, header.next_offset)
    return rows


def _replaced(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def kernel_rows(
    records: Buffer, start: int, end: int, aborted: Iterable[Aborted] | None = None, **options: Any
) -> list[Row]:
    """All that the kernel gives for one answer."""
    decoder = Decoder(TOPIC, PARTITION, start, end, headers=True, epoch=True, **options)
    return rows_of([*decoder.feed(records, aborted), *decoder.flush()])


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Batches as rows; Arrow finds them consistent."""
    rows: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        # As numbers: Python's own dates end with the year 9999.
        numbers = batch.column("timestamp").cast(pa.int64())
        columns = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", numbers).to_pydict()
        assert set(columns["topic"]) == {TOPIC}
        assert set(columns["partition"]) == {PARTITION}
        headers = [None if h is None else [(e["key"], e["value"]) for e in h] for h in columns["headers"]]
        rows += map(
            Row,
            columns["key"],
            columns["value"],
            columns["offset"],
            columns["timestamp"],
            columns["timestampType"],
            headers,
            columns["leaderEpoch"],
        )
    return rows


def guarded(data: Buffer) -> memoryview:
    """The bytes at the very end of readable memory: one byte read past them kills the process."""
    page = mmap.PAGESIZE
    size = -(-max(len(data), 1) // page) * page
    area = mmap.mmap(-1, size + page)
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    if libc.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(page), _PROT_NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
    view = memoryview(area)[size - len(data) : size]
    view[:] = data
    return view
