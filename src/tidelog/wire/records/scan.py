"""Walk the records of a batch without building them: what a broker checks where a topic asks for it (P5)."""

from typing import Final, NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import TIMESTAMP_TYPE_MASK
from tidelog.wire.records.batch import NO_TIMESTAMP, BatchHeader
from tidelog.wire.records.plain import MAX_INT64, MIN_INT64
from tidelog.wire.records.varints import read_varint, read_varlong

# Faults named per batch. A producer needs the first few; a million would be an amplifier.
MAX_FAULTS: Final = 100


class RecordScan(NamedTuple):
    """What a walk found; the lists hold positions in the batch, `MAX_FAULTS` of them at most."""

    max_timestamp: int
    keyless: list[int]
    out_of_range: list[int]


def scan_records(
    payload: bytes | bytearray,
    header: BatchHeader,
    *,
    oldest: int = MIN_INT64,
    newest: int = MAX_INT64,
) -> RecordScan:
    """Check that the payload is exactly the header's records, numbered from 0 without gaps; else WireError.

    Timestamps outside [oldest, newest] are reported, but for records that have none.
    """
    index = 0
    pos = 0
    end = len(payload)
    base_timestamp = header.base_timestamp
    max_timestamp = NO_TIMESTAMP
    keyless: list[int] = []
    out_of_range: list[int] = []
    try:
        for index in range(header.record_count):
            size, pos = read_varint(payload, pos)
            record_end = pos + size
            if not 0 < size <= end - pos:
                raise WireError(f"record {index} has {size} bytes where {end - pos} are left")
            timestamp_delta, pos = read_varlong(payload, pos + 1)
            offset_delta, pos = read_varint(payload, pos)
            if offset_delta != index:
                raise WireError(f"record {index} has offset delta {offset_delta}")
            length, pos = read_varint(payload, pos)
            if length >= 0:
                pos += length
            elif len(keyless) < MAX_FAULTS:
                keyless.append(index)
            length, pos = read_varint(payload, pos)
            if length > 0:
                pos += length
            header_count, pos = read_varint(payload, pos)
            if header_count:
                pos = _skip_headers(payload, pos, record_end, header_count)
            if pos != record_end:
                raise WireError(f"record {index} ends {pos - record_end:+d} bytes from its declared end")
            timestamp = base_timestamp + timestamp_delta
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            if not oldest <= timestamp <= newest and timestamp != NO_TIMESTAMP and len(out_of_range) < MAX_FAULTS:
                out_of_range.append(index)
    except IndexError as error:
        raise WireError(f"record {index} runs past the end of its batch") from error
    if pos != end:
        raise WireError(f"{end - pos} bytes follow the last of {header.record_count} records")
    if max_timestamp > MAX_INT64:
        raise WireError(f"timestamp {max_timestamp} leaves 64 bits")
    if header.attributes & TIMESTAMP_TYPE_MASK:
        max_timestamp = header.max_timestamp
    return RecordScan(max_timestamp, keyless, out_of_range)


def _skip_headers(payload: bytes | bytearray, pos: int, record_end: int, count: int) -> int:
    if not 0 <= 2 * count <= record_end - pos:
        raise WireError(f"{count} headers where the record has {record_end - pos} bytes left")
    for _ in range(count):
        length, pos = read_varint(payload, pos)
        if length < 0:
            raise WireError("a header without a name")
        length, pos = read_varint(payload, pos + length)
        if length > 0:
            pos += length
    return pos
