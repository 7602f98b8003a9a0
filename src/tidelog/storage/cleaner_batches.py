"""What the cleaner does to one batch: which records stay, and what is left of it.

Offsets never change. A batch that loses records keeps its base offset, last offset delta and producer fields, so the
last sequence of its producer is what it was (P4).
"""

from collections.abc import Iterator
from typing import Final

from tidelog.storage.cleaner_offset_map import OffsetMap
from tidelog.storage.ports import DiskFile
from tidelog.storage.segment import CorruptSegment
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import CONTROL_MASK, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_MASK, TimestampType
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    MIN_BATCH_LENGTH,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

_KEPT_ATTRIBUTES: Final = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


def read_batches(file: DiskFile, end: int, base_offset: int, buffer_size: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Each batch below position `end` with its bytes, checked: damage must not get a fresh CRC from us."""
    chunk, chunk_start, position = b"", 0, 0
    while position < end:
        at = position - chunk_start
        if at + BATCH_OVERHEAD > len(chunk):
            chunk, chunk_start, at = _read(file, position, buffer_size, end), position, 0
        try:
            header = read_header(chunk, at)
        except WireError as error:
            raise CorruptSegment(f"{file.path} at {position}: {error}") from error
        size = header.size_in_bytes
        if at + size > len(chunk):
            chunk, chunk_start, at = _read(file, position, max(size, buffer_size), end), position, 0
        # The CRC does not cover the base offset.
        if not crc_ok(chunk, header, at) or header.base_offset < base_offset or header.last_offset_delta < 0:
            raise CorruptSegment(f"{file.path} at {position}: the batch at offset {header.base_offset} is damaged")
        yield header, chunk[at : at + size]
        position += size
        base_offset = header.next_offset


def _read(file: DiskFile, position: int, size: int, end: int) -> bytes:
    return file.pread(min(size, end - position), position)


def records_of(batch: bytes, max_decompressed: int) -> list[Record]:
    """The records of a batch that `read_batches` gave."""
    try:
        return decode_batch(batch, max_decompressed, verify_crc=False)[1]
    except WireError as error:
        raise CorruptSegment(f"the batch at offset {read_header(batch).base_offset}: {error}") from error


def clean_batch(
    header: BatchHeader,
    batch: bytes,
    newest: OffsetMap,
    *,
    now_ms: int,
    delete_retention_ms: int,
    max_decompressed: int,
    keep_empty: bool,
) -> bytes | None:
    """The batch without what newer records replace; the same object if nothing changes, None if nothing is left."""
    if header.base_offset > newest.latest_offset:
        return batch
    horizon = header.delete_horizon_ms
    tombstones_stay = horizon is None or now_ms < horizon
    records = records_of(batch, max_decompressed)
    if not records:
        return batch if keep_empty else None
    kept = [record for record in records if _stays(record, newest, tombstones_stay)]
    if not kept:
        return _emptied(header) if keep_empty else None
    # The clock of a delete marker starts when it is first cleaned: by then every older value of its key is gone.
    starts_clock = horizon is None and any(record.value is None for record in kept)
    if len(kept) == len(records) and not starts_clock:
        return batch
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        codec=header.codec,
        timestamp_type=header.timestamp_type,
        log_append_time=header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        keep_offsets=True,
        last_offset_delta=header.last_offset_delta,
        delete_horizon_ms=now_ms + delete_retention_ms if starts_clock else horizon,
    )


def _stays(record: Record, newest: OffsetMap, tombstones_stay: bool) -> bool:
    if record.offset > newest.latest_offset:
        return True
    if record.key is None:
        # From before the topic was compacted: without a key there is nothing to keep it for.
        return False
    return record.offset >= newest.newest(record.key) and (record.value is not None or tombstones_stay)


def _emptied(header: BatchHeader) -> bytes:
    """The header alone: offsets and sequences live on."""
    emptied = header._replace(
        batch_length=MIN_BATCH_LENGTH,
        attributes=header.attributes & _KEPT_ATTRIBUTES,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    out = bytearray(BATCH_OVERHEAD)
    write_header(out, emptied)
    seal(out, emptied)
    return bytes(out)
