"""The plain decoder and encoder: round trips, and malformed input of every kind."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.batch import BATCH_OVERHEAD, BatchHeader, read_header, seal, write_header
from tidelog.wire.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    control_key,
    encode_end_txn_marker,
    parse_control_type,
    parse_end_txn_marker,
)
from tidelog.wire.records.plain import Record, decode_batch, encode_batch, iter_batches
from tidelog.wire.records.varints import read_varint, read_varlong, write_varint

timestamps = st.integers(0, 2**50)
nullable = st.none() | st.binary(max_size=40)
record_headers = st.lists(st.tuples(st.text(max_size=8), nullable), max_size=3).map(tuple)
records = st.builds(Record, timestamp=timestamps, key=nullable, value=nullable, headers=record_headers)
record_lists = st.lists(records, min_size=1, max_size=20)


def rebuilt(batch: bytes, payload: bytes, **changes: int) -> bytes:
    """The batch with another payload and header fields, sealed: malformed on purpose, but not by its CRC."""
    header = read_header(batch)._replace(batch_length=BATCH_OVERHEAD - 12 + len(payload), **changes)
    buffer = bytearray(BATCH_OVERHEAD) + payload
    write_header(buffer, header)
    seal(buffer, header)
    return bytes(buffer)


def renumbered(batch: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + n) for n, record in enumerate(batch)]


@given(
    batch=record_lists,
    base_offset=st.integers(0, 2**62),
    epoch=st.integers(-1, 2**31 - 1),
    codec=st.sampled_from(Codec),
    producer=st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)),
)
def test_records_come_back_with_the_offsets_that_follow_the_base(
    batch: list[Record], base_offset: int, epoch: int, codec: Codec, producer: tuple[int, int, int]
) -> None:
    encoded = encode_batch(
        batch,
        base_offset=base_offset,
        leader_epoch=epoch,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )
    header, decoded = decode_batch(encoded)
    assert decoded == renumbered(batch, base_offset)
    assert (header.base_offset, header.partition_leader_epoch, header.codec) == (base_offset, epoch, codec)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert header.record_count == header.last_offset_delta + 1 == len(batch)
    assert header.max_timestamp == max(record.timestamp for record in batch)
    assert header.size_in_bytes == len(encoded)


@given(batch=record_lists, gaps=st.lists(st.integers(1, 1000), min_size=20, max_size=20))
def test_the_cleaner_keeps_offsets(batch: list[Record], gaps: list[int]) -> None:
    offset = 50
    kept = []
    for record, gap in zip(batch, gaps, strict=False):
        offset += gap
        kept.append(record._replace(offset=offset))
    encoded = encode_batch(kept, base_offset=50, keep_offsets=True, last_offset_delta=40_000)
    header, decoded = decode_batch(encoded)
    assert decoded == kept
    assert header.last_offset == 40_050


def test_an_emptied_batch_keeps_its_range_and_needs_one() -> None:
    header, decoded = decode_batch(encode_batch([], base_offset=7, last_offset_delta=2, producer_id=9))
    assert decoded == []
    assert (header.base_offset, header.last_offset, header.record_count, header.producer_id) == (7, 9, 0, 9)
    with pytest.raises(ValueError, match="last_offset_delta"):
        encode_batch([])


def test_log_append_time_is_the_time_of_every_record() -> None:
    encoded = encode_batch(
        [Record(timestamp=5), Record(timestamp=6)],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=99,
    )
    header, decoded = decode_batch(encoded)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in decoded] == [99, 99]


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    header, decoded = decode_batch(encode_batch([Record(timestamp=500, key=b"k")], delete_horizon_ms=10_000))
    assert header.delete_horizon_ms == 10_000
    assert decoded[0].timestamp == 500


def test_a_header_name_that_is_not_utf8_survives() -> None:
    batch = encode_batch([Record(headers=(("n\udcff", b"v"),))])
    assert b"n\xff" in batch
    assert decode_batch(batch)[1][0].headers == (("n\udcff", b"v"),)


def test_many_batches_and_a_cut_tail() -> None:
    one, two = encode_batch([Record(value=b"1")]), encode_batch([Record(value=b"2")], base_offset=1)
    assert [r[0].value for _, r in iter_batches(one + two)] == [b"1", b"2"]
    assert [r[0].value for _, r in iter_batches(memoryview(one + two[:-3]), partial_tail=True)] == [b"1"]
    with pytest.raises(WireError):
        list(iter_batches(one + two[:-3]))


ONE = encode_batch([Record(timestamp=10, key=b"k", value=b"v", headers=(("h", b"x"),))])
BODY = ONE[BATCH_OVERHEAD:]
MALFORMED = {
    "fewer bytes than the batch claims": ONE[:-1],
    "wrong CRC": ONE[:-1] + b"?",
    "count beyond the bytes": rebuilt(ONE, BODY, record_count=2**31 - 1),
    "negative count": rebuilt(ONE, BODY, record_count=-1),
    "bytes left over": rebuilt(ONE, BODY + BODY),
    "no bytes for the records": rebuilt(ONE, b""),
    "record longer than the payload": rebuilt(ONE, bytes([40]) + BODY[1:]),
    "record of negative length": rebuilt(ONE, b"\x01" + BODY[1:]),
    "record shorter than its fields": rebuilt(ONE, bytes([BODY[0] - 2]) + BODY[1:]),
    "record longer than its fields": rebuilt(ONE, bytes([BODY[0] + 2]) + BODY[1:] + b"\0"),
    "overlong varint": rebuilt(ONE, b"\x10\0\0\0" + b"\x80" * 5 + b"\0" * 8),
    "varint of more than 32 bits": rebuilt(ONE, b"\xff\xff\xff\xff\x7f" + BODY),
    "overlong varlong": rebuilt(ONE, b"\x18\0" + b"\x80" * 10 + b"\0" * 8),
    "timestamp past 64 bits": rebuilt(ONE, BODY[:2] + b"\x02" + BODY[3:], base_timestamp=2**63 - 1),
    "key longer than its record": rebuilt(ONE, BODY[:4] + bytes([60]) + BODY[5:]),
    "key length below null": rebuilt(ONE, BODY[:4] + b"\x03" + BODY[5:]),
    "negative header count": rebuilt(ONE, BODY[:8] + b"\x01" + BODY[9:]),
    "header count beyond the record": rebuilt(ONE, BODY[:8] + b"\x7e" + BODY[9:]),
    "header without a name": rebuilt(ONE, BODY[:9] + b"\x01" + BODY[10:]),
    "unknown codec": rebuilt(ONE, BODY, attributes=6),
    "codec that does not match": rebuilt(ONE, BODY, attributes=4),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_batches_are_wire_errors(name: str) -> None:
    with pytest.raises(WireError):
        decode_batch(MALFORMED[name])


def test_the_unchanged_batch_is_fine() -> None:
    assert decode_batch(rebuilt(ONE, BODY))[1] == decode_batch(ONE)[1]


@settings(max_examples=300)
@given(batch=record_lists, codec=st.sampled_from(Codec), seed=st.integers(0, 2**32))
def test_fuzz_nothing_but_wire_errors_leaves_the_decoder(batch: list[Record], codec: Codec, seed: int) -> None:
    rng = random.Random(seed)
    fuzzed = bytearray(encode_batch(batch, codec=codec))
    for _ in range(rng.randint(1, 8)):
        fuzzed[rng.randrange(8 if rng.random() < 0.2 else BATCH_OVERHEAD, len(fuzzed))] = rng.randrange(256)
    if rng.random() < 0.3:
        del fuzzed[rng.randrange(len(fuzzed)) :]
    try:
        decode_batch(fuzzed, 100_000, verify_crc=False)
    except WireError:
        return


@given(data=st.binary(max_size=300), count=st.integers(-(2**31), 2**31 - 1), codec=st.integers(0, 7))
def test_fuzz_any_payload_at_all(data: bytes, count: int, codec: int) -> None:
    try:
        decode_batch(rebuilt(ONE, data, record_count=count, attributes=codec), 100_000)
    except WireError:
        return


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varints(value: int) -> None:
    out = bytearray(b"?")
    write_varint(out, value)
    assert read_varint(out, 1) == (value, len(out))
    assert read_varlong(out, 1) == (value, len(out))


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varlongs(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varlong(out, 0) == (value, len(out))
    assert len(out) <= 10


def test_a_transaction_marker_is_a_control_batch_of_one() -> None:
    for committed in (True, False):
        marker = EndTransactionMarker(committed, 12)
        header, decoded = decode_batch(
            encode_end_txn_marker(marker, producer_id=5, producer_epoch=3, timestamp=77, base_offset=9, leader_epoch=2)
        )
        assert header.is_control
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
        assert parse_end_txn_marker(decoded[0]) == marker
        assert (decoded[0].offset, decoded[0].timestamp) == (9, 77)


def test_control_types_newer_than_ours_are_unknown_not_wrong() -> None:
    assert parse_control_type(b"\0\0\0\x02") is ControlRecordType.LEADER_CHANGE
    assert parse_control_type(b"\0\x01\0\x63more") is ControlRecordType.UNKNOWN
    with pytest.raises(ValueError, match="reading only"):
        control_key(ControlRecordType.UNKNOWN)


@pytest.mark.parametrize(
    "record",
    [
        Record(),
        Record(key=b"\0\0\0"),
        Record(key=b"\xff\xff\0\0", value=bytes(6)),
        Record(key=b"\0\0\0\x02", value=bytes(6)),
        Record(key=b"\0\0\0\0"),
        Record(key=b"\0\0\0\0", value=bytes(5)),
        Record(key=b"\0\0\0\0", value=b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_marker_is_refused(record: Record) -> None:
    with pytest.raises(WireError):
        parse_end_txn_marker(record)


def test_header_type_of_a_decoded_batch() -> None:
    assert isinstance(decode_batch(ONE)[0], BatchHeader)
