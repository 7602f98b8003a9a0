"""Batch headers: read, check, patch, walk."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    BatchHeader,
    compute_crc,
    crc_ok,
    increment_sequence,
    iter_headers,
    read_header,
    seal,
    stamp,
    write_header,
)
from tidelog.wire.records.plain import Record, encode_batch

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)

headers = st.builds(
    BatchHeader,
    base_offset=int64,
    batch_length=st.integers(49, 2**31 - 1),
    partition_leader_epoch=int32,
    magic=st.just(2),
    crc=st.integers(0, 2**32 - 1),
    attributes=int16,
    last_offset_delta=int32,
    base_timestamp=int64,
    max_timestamp=int64,
    producer_id=int64,
    producer_epoch=int16,
    base_sequence=int32,
    record_count=int32,
)


def batch(count: int = 1, **fields: int) -> bytearray:
    return bytearray(encode_batch([Record(value=b"v%d" % n, timestamp=n) for n in range(count)], **fields))  # type: ignore[arg-type]


@given(header=headers, pos=st.integers(0, 5))
def test_a_header_reads_back_as_written(header: BatchHeader, pos: int) -> None:
    buffer = bytearray(pos + BATCH_OVERHEAD)
    write_header(buffer, header, pos)
    assert read_header(buffer, pos) == header
    assert read_header(memoryview(buffer), pos) == header


def test_the_fields_lie_where_kafka_puts_them() -> None:
    header = BatchHeader(1, 49, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    buffer = bytearray(BATCH_OVERHEAD)
    write_header(buffer, header)
    at = {0: ">q", 8: ">i", 12: ">i", 16: ">b", 17: ">I", 21: ">h", 23: ">i", 27: ">q", 35: ">q", 43: ">q"}
    at |= {51: ">h", 53: ">i", 57: ">i"}
    assert tuple(struct.unpack_from(form, buffer, pos)[0] for pos, form in at.items()) == header


@pytest.mark.parametrize(
    ("buffer", "pos"),
    [(b"", 0), (bytes(60), 0), (bytes(61), 0), (bytes(16) + b"\x01" + bytes(44), 0), (bytes(100), -1), (batch(), 5)],
    ids=["empty", "short", "magic 0", "magic 1", "negative position", "runs out"],
)
def test_what_is_no_header_is_refused(buffer: bytes, pos: int) -> None:
    with pytest.raises(WireError):
        read_header(buffer, pos)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_length_below_the_header_itself_is_refused(length: int) -> None:
    buffer = batch()
    struct.pack_into(">i", buffer, 8, length)
    with pytest.raises(WireError, match=f"has the length {length},"):
        read_header(buffer)


def test_derived_fields() -> None:
    header = read_header(batch(3, base_offset=100, codec=Codec.ZSTD, is_transactional=True))
    assert (header.last_offset, header.next_offset) == (102, 103)
    assert header.codec is Codec.ZSTD
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.delete_horizon_ms is None
    assert not header.has_producer_id
    assert header.last_sequence == NO_SEQUENCE


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_an_unknown_codec_is_a_wire_error(codec_id: int) -> None:
    with pytest.raises(WireError, match=f"codec id {codec_id}"):
        _ = read_header(batch())._replace(attributes=codec_id).codec


@pytest.mark.rule("P4")
def test_sequences_wrap_after_the_last_31_bit_integer() -> None:
    assert increment_sequence(MAX_SEQUENCE, 1) == 0
    assert increment_sequence(MAX_SEQUENCE - 1, 3) == 1
    assert read_header(batch(4, producer_id=1, producer_epoch=0, base_sequence=MAX_SEQUENCE - 1)).last_sequence == 1


@given(start=st.integers(0, MAX_SEQUENCE), step=st.integers(0, MAX_SEQUENCE))
def test_incrementing_a_sequence_is_counting_modulo_2_to_31(start: int, step: int) -> None:
    assert increment_sequence(start, step) == (start + step) % 2**31


def test_stamping_moves_offset_and_epoch_and_leaves_the_crc_valid() -> None:
    buffer = bytearray(b"head") + batch(2)
    stamp(memoryview(buffer), 41, 7, pos=4)
    header = read_header(buffer, 4)
    assert (header.base_offset, header.partition_leader_epoch) == (41, 7)
    assert crc_ok(buffer, header, 4)


@pytest.mark.rule("P5")
def test_any_flipped_bit_behind_the_crc_breaks_it() -> None:
    buffer = batch(2)
    header = read_header(buffer)
    for bit in range(21 * 8, len(buffer) * 8):
        buffer[bit // 8] ^= 1 << bit % 8
        assert not crc_ok(buffer, header)
        buffer[bit // 8] ^= 1 << bit % 8
    assert crc_ok(buffer, header)


def test_a_batch_that_is_not_all_there_has_no_valid_crc() -> None:
    buffer = batch(2)
    assert not crc_ok(buffer[:-1], read_header(buffer))


def test_sealing_makes_changed_bytes_valid_again_and_leaves_no_view_behind() -> None:
    buffer = batch(2)
    header = read_header(buffer)
    buffer[-1] ^= 0xFF
    assert seal(buffer, header) == compute_crc(buffer, header) != header.crc
    assert crc_ok(buffer, read_header(buffer))
    buffer.append(0)  # BufferError if a memoryview of it were still alive


def test_walking_batches() -> None:
    log = batch(2) + batch(3, base_offset=2) + batch(1, base_offset=5)
    walked = list(iter_headers(memoryview(log)))
    assert [(header.base_offset, header.record_count) for _, header in walked] == [(0, 2), (2, 3), (5, 1)]
    assert [pos for pos, _ in walked] == [0, len(batch(2)), len(batch(2)) + len(batch(3))]
    assert list(iter_headers(b"")) == []


def test_a_cut_tail_ends_the_walk_only_for_who_expects_it() -> None:
    first, log = batch(2), batch(2) + batch(3, base_offset=2)
    for end in range(len(first) + 1, len(log)):
        cut = log[:end]
        assert [header.base_offset for _, header in iter_headers(cut, partial_tail=True)] == [0]
        with pytest.raises(WireError):
            list(iter_headers(cut))


def test_garbage_is_no_partial_tail() -> None:
    with pytest.raises(WireError, match="magic"):
        list(iter_headers(batch() + bytes(100), partial_tail=True))
