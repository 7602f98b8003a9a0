"""Batches as records and back: for tools, coordinators, compaction and tests. Brokers do not come here.

A record: length, attributes (unused), timestamp and offset relative to the batch's base, key, value, headers;
all integers zigzag varints, -1 the length of a null.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
    TimestampType,
)
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    iter_headers,
    read_header,
    seal,
    write_header,
)
from tidelog.wire.records.compression import DEFAULT_MAX_OUTPUT, compress, decompress
from tidelog.wire.records.varints import read_varint, read_varlong, write_varint

# Length, attributes, two deltas, two null lengths, no headers: a byte each.
MIN_RECORD_SIZE: Final = 7
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1

# Lossless for names that are not UTF-8, which Kafka's brokers never look at.
_HEADER_KEY_ERRORS: Final = "surrogateescape"

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. Offset and timestamp are absolute; an encoder assigns offsets unless told to keep them."""

    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


def decode_batch(
    buffer: Buffer, max_decompressed: int = DEFAULT_MAX_OUTPUT, *, verify_crc: bool = True
) -> tuple[BatchHeader, list[Record]]:
    """The batch at the start of the buffer. Whatever is wrong with it is a WireError."""
    header = read_header(buffer)
    if header.size_in_bytes > len(buffer):
        raise WireError(f"batch has the length {header.size_in_bytes}, but {len(buffer)} bytes are left")
    if verify_crc and not crc_ok(buffer, header):
        raise WireError(f"batch at offset {header.base_offset} does not match its CRC")
    payload = record_payload(buffer, header, max_decompressed)
    records: list[Record] = []
    pos = 0
    try:
        for _ in range(header.record_count):
            record, pos = _read_record(payload, pos, header)
            records.append(record)
    except IndexError as error:
        raise WireError(f"record {len(records)} runs past the end of its batch") from error
    if pos != len(payload):
        raise WireError(f"{len(payload) - pos} bytes follow the last of {len(records)} records")
    return header, records


def iter_batches(
    buffer: Buffer, max_decompressed: int = DEFAULT_MAX_OUTPUT, *, partial_tail: bool = False
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Each batch of a segment or a fetch response, decoded. `partial_tail` as in `iter_headers`."""
    with memoryview(buffer) as view:
        for pos, header in iter_headers(view, partial_tail=partial_tail):
            yield decode_batch(view[pos : pos + header.size_in_bytes], max_decompressed)


def record_payload(buffer: Buffer, header: BatchHeader, max_decompressed: int, pos: int = 0) -> bytes | bytearray:
    """The records of a batch, decompressed, with a count that they can really hold."""
    with memoryview(buffer) as view:
        plain = decompress(header.codec, view[pos + BATCH_OVERHEAD : pos + header.size_in_bytes], max_decompressed)
        # A memoryview is slow to index and may be of a buffer about to be reused.
        payload = bytes(plain) if isinstance(plain, memoryview) else plain
    if not 0 <= header.record_count * MIN_RECORD_SIZE <= len(payload):
        raise WireError(f"{len(payload)} bytes cannot hold {header.record_count} records")
    return payload


def _read_record(payload: bytes | bytearray, pos: int, header: BatchHeader) -> tuple[Record, int]:
    size, pos = read_varint(payload, pos)
    end = pos + size
    if size < 0 or end > len(payload):
        raise WireError(f"a record of {size} bytes where {len(payload) - pos} are left")
    pos += 1  # attributes: none defined
    timestamp_delta, pos = read_varlong(payload, pos)
    offset_delta, pos = read_varint(payload, pos)
    key, pos = _read_bytes(payload, pos, end)
    value, pos = _read_bytes(payload, pos, end)
    header_count, pos = read_varint(payload, pos)
    headers: tuple[Header, ...] = ()
    if header_count:
        headers, pos = _read_headers(payload, pos, end, header_count)
    if pos != end:
        raise WireError(f"a record of {size} bytes ends {pos - end:+d} bytes from its declared end")
    timestamp = header.base_timestamp + timestamp_delta
    if header.attributes & TIMESTAMP_TYPE_MASK:
        timestamp = header.max_timestamp
    elif not MIN_INT64 <= timestamp <= MAX_INT64:
        raise WireError(f"timestamp delta {timestamp_delta} leaves 64 bits")
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), pos


def _read_bytes(payload: bytes | bytearray, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(payload, pos)
    if length < 0:
        if length != -1:
            raise WireError(f"a length of {length}")
        return None, pos
    stop = pos + length
    if stop > end:
        raise WireError(f"a field of {length} bytes where its record has {end - pos}")
    return bytes(payload[pos:stop]), stop


def _read_headers(payload: bytes | bytearray, pos: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    # Each header takes two bytes at least: nothing is built from a count the bytes cannot bear out.
    if not 0 <= 2 * count <= end - pos:
        raise WireError(f"{count} headers where the record has {end - pos} bytes left")
    headers: list[Header] = []
    for _ in range(count):
        name, pos = _read_bytes(payload, pos, end)
        if name is None:
            raise WireError("a header without a name")
        value, pos = _read_bytes(payload, pos, end)
        headers.append((name.decode("utf-8", _HEADER_KEY_ERRORS), value))
    return tuple(headers), pos


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One sealed batch.

    Records get the offsets that follow `base_offset`. The log cleaner passes `keep_offsets` and the
    `last_offset_delta` of the batch it thins out, which may leave no record at all.
    """
    if not records and last_offset_delta is None:
        raise ValueError("a batch without records needs a last_offset_delta")
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    payload = bytearray()
    delta = -1
    for index, record in enumerate(records):
        delta = record.offset - base_offset if keep_offsets else index
        _write_record(payload, record, record.timestamp - base_timestamp, delta)
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    if timestamp_type is TimestampType.LOG_APPEND_TIME and log_append_time is not None:
        max_timestamp = log_append_time
    packed = payload if codec is Codec.NONE else compress(codec, payload, compression_level)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(packed),
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec
        | (TIMESTAMP_TYPE_MASK if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_MASK if is_transactional else 0)
        | (CONTROL_MASK if is_control else 0)
        | (DELETE_HORIZON_MASK if delete_horizon_ms is not None else 0),
        last_offset_delta=delta if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    batch = bytearray(BATCH_OVERHEAD)
    batch += packed
    write_header(batch, header)
    seal(batch, header)
    return bytes(batch)


def _write_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)  # attributes: none defined
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode("utf-8", _HEADER_KEY_ERRORS))
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1 in zigzag
        return
    write_varint(out, len(value))
    out += value
