"""What a batch must be before it is appended (P5).

The header is always checked. Records are walked only where the topic needs it: compacted topics, a topic
`compression.type` that is not the batch's, and `tidelog.record.validation=full`. A leader may rewrite what the
CRC covers (timestamp type and max timestamp, codec) and then seals the batch anew, as Kafka does.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.core.config.topic import TopicConfig
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.attributes import (
    CODEC_MASK,
    CODECS,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    UNUSED_MASK,
    Codec,
)
from tidelog.wire.records.batch import (
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    iter_headers,
    read_header,
    seal,
    unpack_header,
    write_header,
)
from tidelog.wire.records.compression import DEFAULT_MAX_OUTPUT, compress
from tidelog.wire.records.control import parse_end_txn_marker
from tidelog.wire.records.plain import MAX_INT64, MIN_INT64, decode_batch, record_payload
from tidelog.wire.records.scan import scan_records

_OLD_MAGICS: Final = (0, 1)
_CODEC_COUNT: Final = len(CODECS)
# A walk is about 2 us a record and holds up the broker meanwhile; a small batch can inflate to millions of
# records. An uncompressed batch of the default max.message.bytes holds 150,000 of the smallest.
MAX_WALKED_RECORDS: Final = 500_000
# A transaction marker is a few dozen bytes; a batch that claims to be one and inflates further is not.
MAX_MARKER_BYTES: Final = 4096
_CODEC_BY_NAME: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class AppendOrigin(Enum):
    """Who hands a batch to the log; it decides what is checked."""

    CLIENT = auto()
    """A produce request: nothing is taken on trust."""
    COORDINATOR = auto()
    """Our own coordinators: control batches allowed, sequences and counts theirs."""
    REPLICATION = auto()
    """A follower copying its leader: bytes unchanged, checked for damage only."""
    RAFT_LEADER = auto()
    """The metadata log's leader, which sets offsets and epoch itself."""


_CLIENT: Final = AppendOrigin.CLIENT


class RecordError(NamedTuple):
    """A record that was refused, by its position in the batch (Produce v8+ tells the client)."""

    batch_index: int
    message: str


class RecordsRejected(ApiError):
    """A batch refused for some of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


class Validated(NamedTuple):
    """A batch ready to be stamped and appended. Its bytes are the caller's own unless `rewritten`."""

    records: memoryview
    header: BatchHeader
    max_timestamp: int
    log_append_time: int
    rewritten: bool


def validate_for_leader(
    records: memoryview,
    config: TopicConfig,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    *,
    allow_zstd: bool = True,
    max_decompressed: int = DEFAULT_MAX_OUTPUT,
) -> Validated:
    """Check one batch, and make it what the topic wants. `records` must be writable: timestamps are set in place.

    `allow_zstd` is false for Produce before v7, whose consumers could not read it.
    """
    if origin is _CLIENT and len(records) >= BATCH_OVERHEAD:
        header = unpack_header(records)
        if _passes_untouched(records, header, config, now_ms, allow_zstd):
            return Validated(records, header, header.max_timestamp, NO_TIMESTAMP, False)
    return validate_step_by_step(
        records, config, now_ms, origin, allow_zstd=allow_zstd, max_decompressed=max_decompressed
    )


def _passes_untouched(
    records: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int, allow_zstd: bool
) -> bool:
    """Whether a client's batch passes every step below and is appended as it came: nearly all of them, in a third
    of the time. False means nothing but that the steps must say.
    """
    size = len(records)
    attributes = header.attributes
    timestamp = header.max_timestamp
    return (
        header.magic == MAGIC
        and header.batch_length == size - LOG_OVERHEAD
        and size <= config.max_message_bytes
        and size <= config.segment_bytes
        and header.base_offset == 0
        and attributes & ~(CODEC_MASK | TRANSACTIONAL_MASK) == 0
        and attributes & CODEC_MASK < (_CODEC_COUNT if allow_zstd else Codec.ZSTD)
        and header.record_count == header.last_offset_delta + 1 > 0
        and (
            (header.producer_epoch >= 0 and header.base_sequence >= 0)
            if header.producer_id >= 0
            else attributes & TRANSACTIONAL_MASK == 0
        )
        and config.message_timestamp_type == "CreateTime"
        and config.compression_type == "producer"
        and config.tidelog_record_validation == "header"
        and not config.is_compacted
        and (
            timestamp == NO_TIMESTAMP
            or -config.message_timestamp_after_max_ms <= now_ms - timestamp <= config.message_timestamp_before_max_ms
        )
        and crc_ok(records, header)
    )


def validate_step_by_step(
    records: memoryview,
    config: TopicConfig,
    now_ms: int,
    origin: AppendOrigin,
    *,
    allow_zstd: bool = True,
    max_decompressed: int = DEFAULT_MAX_OUTPUT,
) -> Validated:
    """All of it, in order: what is wrong is named, what the topic wants otherwise is rewritten."""
    header = _read_only_batch(records)
    _check_size(header, config)
    if origin is AppendOrigin.RAFT_LEADER:
        _check_crc(records, header)
        return Validated(records, header, header.max_timestamp, NO_TIMESTAMP, False)
    if origin is AppendOrigin.CLIENT and header.base_offset != 0:
        raise _invalid(f"the base offset must be 0, not {header.base_offset}")
    _check_crc(records, header)
    _check_attributes(header, origin, allow_zstd)
    if origin is AppendOrigin.CLIENT:
        _check_client_batch(header)
    append_time = now_ms if config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
    if append_time == NO_TIMESTAMP:
        _check_timestamp(header.max_timestamp, config, now_ms)

    codec = _target_codec(header, config)
    compacted = config.is_compacted
    payload: bytes | bytearray | None = None
    max_timestamp = header.max_timestamp
    if codec is not header.codec or compacted or config.tidelog_record_validation == "full":
        if header.record_count > MAX_WALKED_RECORDS:
            raise _invalid(
                f"{header.record_count} records in a batch whose records must be read; the limit is "
                f"{MAX_WALKED_RECORDS}"
            )
        try:
            payload = record_payload(records, header, max_decompressed)
            max_timestamp = _check_records(payload, header, config, now_ms, compacted)
        except WireError as error:
            raise _invalid(str(error)) from error
    if append_time != NO_TIMESTAMP:
        max_timestamp = append_time
    return _as_the_topic_wants(records, header, config, payload, codec, max_timestamp, append_time)


def check_batches(records: memoryview, *, partial_tail: bool = False) -> list[tuple[int, BatchHeader]]:
    """Positions and headers of batches that were validated elsewhere (REPLICATION): whole and undamaged."""
    try:
        walked = list(iter_headers(records, partial_tail=partial_tail))
    except WireError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    for pos, header in walked:
        # As `crc_ok`, less what the walk has checked.
        if crc32c(records[pos + ATTRIBUTES_POSITION : pos + LOG_OVERHEAD + header.batch_length]) != header.crc:
            raise _damaged(header)
        if header.attributes & CONTROL_MASK and header.has_producer_id and header.record_count:
            # Producer state reads it after the append, when it is too late to refuse.
            _check_marker(records[pos : pos + header.size_in_bytes])
    return walked


def _check_marker(batch: memoryview) -> None:
    try:
        _, decoded = decode_batch(batch, MAX_MARKER_BYTES, verify_crc=False)
        parse_end_txn_marker(decoded[0])
    except WireError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"control batch without a marker: {error}") from error


def _read_only_batch(records: memoryview) -> BatchHeader:
    """The header, if the bytes are exactly one batch of magic 2."""
    if not records:
        raise _invalid("a partition's records must be exactly one batch, but the request has none")
    if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] in _OLD_MAGICS:
        raise _invalid(f"message format {records[MAGIC_POSITION]} is not supported, only 2")
    try:
        header = read_header(records)
    except WireError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.size_in_bytes > len(records):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch header has the length {header.size_in_bytes}, but {len(records)} bytes follow",
        )
    if header.size_in_bytes < len(records):
        raise _invalid("a partition's records must be exactly one batch, but more bytes follow it")
    return header


def _check_size(header: BatchHeader, config: TopicConfig) -> None:
    if header.size_in_bytes > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size_in_bytes} bytes; max.message.bytes is {config.max_message_bytes}",
        )
    if header.size_in_bytes > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {header.size_in_bytes} bytes; segment.bytes is {config.segment_bytes}",
        )


def _check_crc(records: memoryview, header: BatchHeader, pos: int = 0) -> None:
    if not crc_ok(records, header, pos):
        raise _damaged(header)


def _damaged(header: BatchHeader) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch does not match its CRC {header.crc:#010x}")


def _check_attributes(header: BatchHeader, origin: AppendOrigin, allow_zstd: bool) -> None:
    if header.attributes & UNUSED_MASK:
        raise _invalid(f"attributes {header.attributes & 0xFFFF:#06x} set undefined bits")
    if header.attributes & CODEC_MASK >= len(CODECS):
        raise _invalid(f"unknown compression codec id {header.attributes & CODEC_MASK}")
    if header.codec is Codec.ZSTD and not allow_zstd:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or newer")
    if header.attributes & DELETE_HORIZON_MASK and origin is AppendOrigin.CLIENT:
        raise _invalid("only the log cleaner sets a delete horizon")
    if header.attributes & TIMESTAMP_TYPE_MASK:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "only a broker sets the timestamp type LogAppendTime")


def _check_client_batch(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients may not write control records")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"a record count of {header.record_count} with a last offset delta of {header.last_offset_delta}"
        )
    # Without a producer id the other two fields mean nothing, and clients in use leave zeros there.
    if header.has_producer_id and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise _invalid(
            f"producer {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    if header.is_transactional and not header.has_producer_id:
        raise _invalid("a transactional batch without a producer id")


def _check_timestamp(timestamp: int, config: TopicConfig, now_ms: int) -> None:
    oldest, newest = _timestamp_range(config, now_ms)
    if timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"max timestamp {timestamp} is not within [{oldest}, {newest}]")


def _timestamp_range(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def _check_records(
    payload: bytes | bytearray, header: BatchHeader, config: TopicConfig, now_ms: int, compacted: bool
) -> int:
    """The largest timestamp really there, if every record is well formed, keyed where needed, and timely."""
    oldest, newest = MIN_INT64, MAX_INT64
    if config.message_timestamp_type != "LogAppendTime":
        oldest, newest = _timestamp_range(config, now_ms)
    scan = scan_records(payload, header, oldest=oldest, newest=newest)
    errors: list[RecordError] = []
    if compacted:
        errors += [RecordError(index, "a compacted topic needs a key") for index in scan.keyless]
    keyless = {error.batch_index for error in errors}
    late = [index for index in scan.out_of_range if index not in keyless]
    errors += [RecordError(index, f"timestamp not within [{oldest}, {newest}]") for index in late]
    if late:
        raise RecordsRejected(
            ErrorCode.INVALID_TIMESTAMP, f"timestamps not within [{oldest}, {newest}]", sorted(errors)
        )
    if errors:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, "a compacted topic needs keys", errors)
    return scan.max_timestamp


def _target_codec(header: BatchHeader, config: TopicConfig) -> Codec:
    # Control batches stay as their coordinator wrote them.
    if config.compression_type == "producer" or header.is_control:
        return header.codec
    return _CODEC_BY_NAME[config.compression_type]


def _as_the_topic_wants(
    records: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    payload: bytes | bytearray | None,
    codec: Codec,
    max_timestamp: int,
    append_time: int,
) -> Validated:
    attributes = header.attributes & ~CODEC_MASK | codec
    if append_time != NO_TIMESTAMP:
        attributes |= TIMESTAMP_TYPE_MASK
    rewritten = False
    if codec is not header.codec:
        assert payload is not None, "a batch is recompressed only after its records were read"
        packed = compress(codec, payload, _level(codec, config))
        buffer = bytearray(BATCH_OVERHEAD)
        buffer += packed
        header = header._replace(batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(packed))
        _check_size(header, config)
        records = memoryview(buffer)
        rewritten = True
    if rewritten or attributes != header.attributes or max_timestamp != header.max_timestamp:
        header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
        write_header(records, header)
        header = header._replace(crc=seal(records, header))
    return Validated(records, header, max_timestamp, append_time, rewritten)


def _level(codec: Codec, config: TopicConfig) -> int | None:
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    if codec is Codec.ZSTD:
        return config.compression_zstd_level
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)
