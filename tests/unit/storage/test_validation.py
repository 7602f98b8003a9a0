"""P5: what a batch must be before it is appended. Every refusal is a row with its error code."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from tidelog.core.config.topic import TopicConfig
from tidelog.storage.validation import (
    AppendOrigin,
    RecordError,
    RecordsRejected,
    Validated,
    check_batches,
    validate_for_leader,
    validate_step_by_step,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.batch import BATCH_OVERHEAD, crc_ok, read_header, seal, write_header
from tidelog.wire.records.compression import compress
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

NOW = 1_700_000_000_000
HOUR = 3_600_000
PLAIN = TopicConfig()
COMPACTED = TopicConfig(cleanup_policy=("compact",))
FULL = TopicConfig(tidelog_record_validation="full")
APPEND_TIME = TopicConfig(message_timestamp_type="LogAppendTime")
STRICT_TIME = TopicConfig(message_timestamp_before_max_ms=HOUR)

RECORDS = [Record(timestamp=NOW + n, key=b"k%d" % n, value=b"v" * n) for n in range(3)]


def batch(records: list[Record] | None = None, **fields: object) -> bytearray:
    return bytearray(encode_batch(RECORDS if records is None else records, **fields))  # type: ignore[arg-type]


def with_header(buffer: bytes | bytearray, **changes: int) -> bytearray:
    """Other header fields under a CRC that fits them: only validation can tell."""
    changed = bytearray(buffer)
    header = read_header(changed)._replace(**changes)
    write_header(changed, header)
    seal(changed, header)
    return changed


def with_payload(payload: bytes, codec: Codec = Codec.NONE, count: int = 3) -> bytearray:
    packed = compress(codec, payload)
    buffer = batch()[:BATCH_OVERHEAD] + packed
    return with_header(
        buffer,
        batch_length=len(buffer) - 12,
        attributes=codec,
        record_count=count,
        last_offset_delta=count - 1,
    )


def validate(
    buffer: bytearray, config: TopicConfig = PLAIN, origin: AppendOrigin = AppendOrigin.CLIENT, **options: int
) -> Validated:
    return validate_for_leader(memoryview(buffer), config, NOW, origin, **options)  # type: ignore[arg-type]


def flipped(buffer: bytearray, position: int) -> bytearray:
    buffer[position] ^= 0x01
    return buffer


def old_format(magic: int) -> bytearray:
    """A message of the old formats is shorter than a batch header."""
    return bytearray(struct.pack(">qiibb", 0, 22, 0, magic, 0) + bytes(16))


Case = tuple[Callable[[], bytearray], TopicConfig, ErrorCode]
REFUSED: dict[str, Case] = {
    "nothing at all": (bytearray, PLAIN, ErrorCode.INVALID_RECORD),
    "too short for a header": (lambda: batch()[:40], PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "too short for a magic": (lambda: batch()[:10], PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "cut": (lambda: batch()[:-1], PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "length below the header": (lambda: with_length(48), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "length negative": (lambda: with_length(-1), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "damaged record": (lambda: flipped(batch(), -1), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "damaged header": (lambda: flipped(batch(), 30), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "damaged CRC": (lambda: flipped(batch(), 18), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "magic 0": (lambda: old_format(0), PLAIN, ErrorCode.INVALID_RECORD),
    "magic 1": (lambda: old_format(1), PLAIN, ErrorCode.INVALID_RECORD),
    "magic 3": (lambda: with_magic(3), PLAIN, ErrorCode.CORRUPT_MESSAGE),
    "two batches": (lambda: batch() + batch(), PLAIN, ErrorCode.INVALID_RECORD),
    "bytes after the batch": (lambda: batch() + b"?", PLAIN, ErrorCode.INVALID_RECORD),
    "larger than max.message.bytes": (
        batch,
        TopicConfig(max_message_bytes=len(batch()) - 1),
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "larger than a segment": (
        batch,
        TopicConfig(segment_bytes=len(batch()) - 1),
        ErrorCode.RECORD_LIST_TOO_LARGE,
    ),
    "base offset": (lambda: batch(base_offset=1), PLAIN, ErrorCode.INVALID_RECORD),
    "count above the offsets": (lambda: with_header(batch(), record_count=4), PLAIN, ErrorCode.INVALID_RECORD),
    "count below the offsets": (lambda: with_header(batch(), record_count=2), PLAIN, ErrorCode.INVALID_RECORD),
    "no records": (
        lambda: with_header(batch(), record_count=0, last_offset_delta=-1),
        PLAIN,
        ErrorCode.INVALID_RECORD,
    ),
    "negative count": (
        lambda: with_header(batch(), record_count=-1, last_offset_delta=-2),
        PLAIN,
        ErrorCode.INVALID_RECORD,
    ),
    "unused attribute bit": (lambda: with_header(batch(), attributes=0x80), PLAIN, ErrorCode.INVALID_RECORD),
    "unused attribute byte": (lambda: with_header(batch(), attributes=-(2**15)), PLAIN, ErrorCode.INVALID_RECORD),
    "unknown codec": (lambda: with_header(batch(), attributes=5), PLAIN, ErrorCode.INVALID_RECORD),
    "delete horizon": (lambda: with_header(batch(), attributes=0x40), PLAIN, ErrorCode.INVALID_RECORD),
    "control batch": (lambda: batch(is_control=True), PLAIN, ErrorCode.INVALID_RECORD),
    "producer without a sequence": (
        lambda: batch(producer_id=1, producer_epoch=0),
        PLAIN,
        ErrorCode.INVALID_RECORD,
    ),
    "producer without an epoch": (
        lambda: batch(producer_id=1, base_sequence=0),
        PLAIN,
        ErrorCode.INVALID_RECORD,
    ),
    "transactional without a producer": (
        lambda: batch(is_transactional=True),
        PLAIN,
        ErrorCode.INVALID_RECORD,
    ),
    "timestamp too far ahead": (
        lambda: batch([Record(timestamp=NOW + HOUR + 1)]),
        PLAIN,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "timestamp too old": (
        lambda: batch([Record(timestamp=NOW - HOUR - 1)]),
        STRICT_TIME,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "client sets LogAppendTime": (
        lambda: batch(timestamp_type=TimestampType.LOG_APPEND_TIME),
        PLAIN,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "client sets LogAppendTime on such a topic": (
        lambda: batch(timestamp_type=TimestampType.LOG_APPEND_TIME),
        APPEND_TIME,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "compacted, no key": (lambda: batch([Record(timestamp=NOW)]), COMPACTED, ErrorCode.INVALID_RECORD),
    "full, one record too old": (
        lambda: batch([Record(timestamp=NOW), Record(timestamp=NOW - HOUR - 1)]),
        replace(STRICT_TIME, tidelog_record_validation="full"),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "full, payload is no records": (lambda: with_payload(b"?" * 30), FULL, ErrorCode.INVALID_RECORD),
    "full, fewer records than counted": (
        lambda: with_payload(bytes(batch()[BATCH_OVERHEAD:]), count=4),
        FULL,
        ErrorCode.INVALID_RECORD,
    ),
    "full, more records than counted": (
        lambda: with_payload(bytes(batch()[BATCH_OVERHEAD:]), count=2),
        FULL,
        ErrorCode.INVALID_RECORD,
    ),
    "full, offsets with a gap": (
        lambda: with_header(
            batch([Record(offset=0, timestamp=NOW), Record(offset=2, timestamp=NOW)], keep_offsets=True),
            last_offset_delta=1,
        ),
        FULL,
        ErrorCode.INVALID_RECORD,
    ),
    "full, not what the codec says": (
        lambda: with_header(batch(), attributes=Codec.GZIP),
        FULL,
        ErrorCode.INVALID_RECORD,
    ),
    "recompressed, but not readable": (
        lambda: with_header(batch(), attributes=Codec.LZ4),
        TopicConfig(compression_type="zstd"),
        ErrorCode.INVALID_RECORD,
    ),
    "compacted, a bomb": (
        lambda: batch([Record(timestamp=NOW, key=b"k", value=bytes(3_000_000))], codec=Codec.ZSTD),
        COMPACTED,
        ErrorCode.INVALID_RECORD,
    ),
    "full, too many records to walk": (
        lambda: with_payload(bytes(100), Codec.ZSTD, count=500_001),
        FULL,
        ErrorCode.INVALID_RECORD,
    ),
}


def with_length(length: int) -> bytearray:
    buffer = batch()
    struct.pack_into(">i", buffer, 8, length)
    return buffer


def with_magic(magic: int) -> bytearray:
    buffer = batch()
    buffer[16] = magic
    return buffer


@pytest.mark.rule("P5")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    build, config, code = REFUSED[name]
    buffer = build()
    before = bytes(buffer)
    with pytest.raises(ApiError) as refusal:
        validate(buffer, config, max_decompressed=1 << 20)
    assert refusal.value.code is code
    assert refusal.value.message
    assert buffer == before


@pytest.mark.rule("P5")
def test_zstd_needs_produce_v7() -> None:
    with pytest.raises(ApiError) as refusal:
        validate(batch(codec=Codec.ZSTD), allow_zstd=False)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(batch(codec=Codec.LZ4), allow_zstd=False).header.codec is Codec.LZ4


@pytest.mark.rule("P5")
@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch_passes_as_the_bytes_it_came_in(codec: Codec) -> None:
    buffer = batch(codec=codec, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    before = bytes(buffer)
    for config in (PLAIN, COMPACTED, FULL):
        done = validate(buffer, config)
        assert done == Validated(memoryview(buffer), read_header(before), NOW + 2, -1, False)
        assert done.records.obj is buffer
        assert buffer == before


@pytest.mark.rule("P5")
def test_the_header_is_enough_where_a_topic_does_not_ask_for_more() -> None:
    """Stated in the docs as a difference from Kafka: records are not walked, so this passes."""
    assert validate(with_payload(b"?" * 30)).header.record_count == 3
    assert validate(batch([Record(timestamp=NOW), Record(timestamp=0)]), STRICT_TIME).max_timestamp == NOW


@pytest.mark.rule("P5")
def test_without_a_producer_id_the_producer_fields_are_not_looked_at() -> None:
    validate(batch(producer_id=-1, producer_epoch=0, base_sequence=0))


@pytest.mark.rule("P5")
@pytest.mark.parametrize("timestamp", [NOW + HOUR, NOW - HOUR, -1])
def test_timestamps_at_the_edge_or_missing_are_fine(timestamp: int) -> None:
    for config in (STRICT_TIME, replace(STRICT_TIME, tidelog_record_validation="full")):
        assert validate(batch([Record(timestamp=timestamp)]), config).max_timestamp == timestamp


@pytest.mark.rule("P5")
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("config", [APPEND_TIME, replace(APPEND_TIME, cleanup_policy=("compact", "delete"))])
def test_log_append_time_is_set_in_place_under_a_new_crc(codec: Codec, config: TopicConfig) -> None:
    buffer = batch([Record(timestamp=5, key=b"k"), Record(timestamp=6, key=b"l")], codec=codec)
    payload = bytes(buffer[BATCH_OVERHEAD:])
    done = validate(buffer, config)
    assert (done.max_timestamp, done.log_append_time, done.rewritten) == (NOW, NOW, False)
    assert done.records.obj is buffer
    assert buffer[BATCH_OVERHEAD:] == payload
    assert done.header == read_header(buffer)
    assert crc_ok(buffer, done.header)
    assert [record.timestamp for record in decode_batch(buffer)[1]] == [NOW, NOW]


@pytest.mark.rule("P5")
def test_full_validation_corrects_a_wrong_max_timestamp() -> None:
    buffer = with_header(batch(), max_timestamp=NOW - 7)
    assert validate(bytearray(buffer), PLAIN).max_timestamp == NOW - 7
    done = validate(buffer, FULL)
    assert done.max_timestamp == done.header.max_timestamp == NOW + 2
    assert crc_ok(buffer, read_header(buffer))


@pytest.mark.rule("P5")
@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_batch_is_rewritten_in_the_topics_codec(source: Codec, target: str, timestamp_type: str) -> None:
    buffer = batch(codec=source, producer_id=7, producer_epoch=3, base_sequence=11)
    before = bytes(buffer)
    config = TopicConfig(compression_type=target, message_timestamp_type=timestamp_type)
    done = validate(buffer, config)
    codec = Codec.NONE if target == "uncompressed" else Codec[target.upper()]
    assert done.header.codec is codec
    assert done.rewritten == (codec is not source)
    header, records = decode_batch(done.records)
    assert header == done.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    expected = [record._replace(offset=n) for n, record in enumerate(RECORDS)]
    if timestamp_type == "LogAppendTime":
        expected = [record._replace(timestamp=NOW) for record in expected]
    assert records == expected
    if done.rewritten:
        assert buffer == before
    if codec in (Codec.NONE, Codec.GZIP):
        assert KafkaPythonBatch(bytes(done.records)).validate_crc()


@pytest.mark.rule("P5")
def test_a_batch_that_outgrows_the_limit_by_recompression_is_refused() -> None:
    buffer = batch([Record(timestamp=NOW, value=bytes(10_000))], codec=Codec.ZSTD)
    with pytest.raises(ApiError) as refusal:
        validate(buffer, TopicConfig(compression_type="uncompressed", max_message_bytes=5_000))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.rule("P5")
def test_levels_come_from_the_topic() -> None:
    records = [Record(timestamp=NOW, value=b"".join(b"%d," % (n * n) for n in range(5000)))]
    sizes = [
        len(validate(batch(records), TopicConfig(compression_type="gzip", compression_gzip_level=level)).records)
        for level in (1, 9)
    ]
    assert sizes[1] < sizes[0]


@pytest.mark.rule("P5")
def test_refused_records_are_named() -> None:
    records = [
        Record(timestamp=NOW, key=b"k"),
        Record(timestamp=NOW),
        Record(timestamp=NOW - HOUR - 1, key=b"k"),
        Record(timestamp=NOW - HOUR - 1),
    ]
    with pytest.raises(RecordsRejected) as refusal:
        validate(batch(records[:2]), COMPACTED)
    assert refusal.value.record_errors == (RecordError(1, "a compacted topic needs a key"),)
    with pytest.raises(RecordsRejected) as refusal:
        validate(batch(records), replace(STRICT_TIME, cleanup_policy=("compact",)))
    assert refusal.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refusal.value.record_errors] == [1, 2, 3]
    with pytest.raises(RecordsRejected) as refusal:
        validate(batch([Record(timestamp=NOW)] * 1000), COMPACTED)
    assert len(refusal.value.record_errors) == 100


@pytest.mark.rule("P5")
def test_coordinators_may_write_control_batches_and_their_own_offsets() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=1)
    buffer = bytearray(encode_end_txn_marker(marker, producer_id=4, producer_epoch=0, timestamp=NOW, base_offset=9))
    done = validate(buffer, TopicConfig(compression_type="gzip"), AppendOrigin.COORDINATOR)
    assert done.header.is_control
    assert done.header.codec is Codec.NONE


def test_the_raft_leader_is_checked_for_size_and_damage_only() -> None:
    buffer = batch(base_offset=77, is_control=True)
    assert validate(buffer, APPEND_TIME, AppendOrigin.RAFT_LEADER).header.base_offset == 77
    with pytest.raises(ApiError) as refusal:
        validate(flipped(buffer, -1), PLAIN, AppendOrigin.RAFT_LEADER)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_replicated_batches_are_checked_for_damage() -> None:
    fetched = batch(base_offset=3) + batch(base_offset=6, is_control=True)
    walked = check_batches(memoryview(fetched))
    assert [(pos, header.base_offset) for pos, header in walked] == [(0, 3), (len(batch()), 6)]
    no_marker = batch(is_control=True, producer_id=4, producer_epoch=0)
    marker = EndTransactionMarker(committed=True, coordinator_epoch=1)
    check_batches(memoryview(encode_end_txn_marker(marker, producer_id=4, producer_epoch=0, timestamp=NOW)))
    for broken in (fetched[:-1], flipped(bytearray(fetched), -1), fetched + b"?", no_marker):
        with pytest.raises(ApiError) as refusal:
            check_batches(memoryview(broken))
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.rule("P5")
@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            "base_offset": st.integers(-1, 1),
            "attributes": st.integers(0, 0x40) | st.integers(-(2**15), 2**15 - 1),
            "record_count": st.integers(-1, 4),
            "last_offset_delta": st.integers(-2, 3),
            "max_timestamp": st.sampled_from([-2, -1, 0, NOW - HOUR - 1, NOW - HOUR, NOW + HOUR, NOW + HOUR + 1]),
            "producer_id": st.integers(-2, 1),
            "producer_epoch": st.integers(-2, 1),
            "base_sequence": st.integers(-2, 1),
            "magic": st.sampled_from([2, 1]),
            "batch_length": st.integers(len(batch()) - 13, len(batch()) - 11),
        },
    ),
    config=st.sampled_from(
        (
            *(PLAIN, COMPACTED, FULL, APPEND_TIME, STRICT_TIME, TopicConfig(compression_type="zstd")),
            *(TopicConfig(max_message_bytes=100), TopicConfig(segment_bytes=100)),
        )
    ),
    allow_zstd=st.booleans(),
    break_crc=st.booleans(),
)
def test_the_short_way_never_differs_from_the_steps(
    changes: dict[str, int], config: TopicConfig, allow_zstd: bool, break_crc: bool
) -> None:
    buffer = batch()
    header = read_header(buffer)._replace(**changes)
    write_header(buffer, header)
    if changes.get("batch_length", header.batch_length) <= len(buffer) - 12:
        seal(buffer, header)
    if break_crc:
        flipped(buffer, 20)
    outcomes: list[Validated | tuple[ErrorCode, str]] = []
    for way in (validate_for_leader, validate_step_by_step):
        candidate = bytearray(buffer)
        try:
            outcomes.append(way(memoryview(candidate), config, NOW, AppendOrigin.CLIENT, allow_zstd=allow_zstd))
        except ApiError as error:
            outcomes.append((error.code, error.message))
    assert outcomes[0] == outcomes[1]


@given(
    data=st.binary(max_size=200),
    config=st.sampled_from([PLAIN, COMPACTED, FULL, APPEND_TIME, TopicConfig(compression_type="lz4")]),
    attributes=st.integers(-(2**15), 2**15 - 1),
    count=st.integers(-3, 40),
)
def test_fuzz_only_api_errors_leave(data: bytes, config: TopicConfig, attributes: int, count: int) -> None:
    buffer = batch()[:BATCH_OVERHEAD] + data
    sealed = with_header(
        buffer,
        batch_length=len(buffer) - 12,
        attributes=attributes,
        record_count=count,
        last_offset_delta=count - 1,
    )
    for candidate in (bytearray(data), sealed):
        for origin in AppendOrigin:
            try:
                done = validate(bytearray(candidate), config, origin)
            except ApiError:
                continue
            assert crc_ok(done.records, read_header(done.records))
