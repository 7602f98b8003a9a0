"""One lie at a time, in every place of a batch: the kernel refuses what the plain decoder does, and reads no byte more.

`test_against_plain` looks for what nobody thought of; this goes through what is known to be dangerous.
"""

from itertools import product

import pytest
from tests.unit.kernel.lying import refused_or_same, resealed, varint

from tidelog.kernel.native import MAX_TIMESTAMP_MS
from tidelog.wire.records.attributes import TimestampType
from tidelog.wire.records.plain import encode_batch

BASE_OFFSET = 5
LAST_OFFSET_DELTA = 70
INTEGERS = (0, 1, 2, 3, 5, 8, -1, -2, -3, 69, 70, 71, 72, -64, -65, 127, 128, 2**31 - 2, 2**31 - 1, -(2**31))
INTEGERS_OF_64_BITS = (2**31, -(2**31) - 1, 2**32, 2**62, 2**63 - 1, -(2**63))
# Longer than they need be, longer than they may be, of too many bits, and without an end.
RAW = (
    b"\x80\x00",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\x80" * 9 + b"\x00",
    b"\x80" * 9 + b"\x01",
    b"\x80" * 9 + b"\x02",
    b"\x80" * 9 + b"\x03",
    b"\x80" * 9 + b"\x80\x00",
    b"\xff" * 9 + b"\x01",
    b"\x80",
    b"\xff\xff\xff\xff\xff",
    b"\xff" * 12,
    b"",
)
LIES = [varint(number) for number in INTEGERS + INTEGERS_OF_64_BITS] + list(RAW)
PLACES = ["size", "timestamp", "offset", "key", "value", "headers", "name", "header value", "second name"]


def record(number: int, place: str = "", lie: bytes = b"", *, size_of_truth: bool = False) -> bytes:
    """A record with everything in it; at `place` stands `lie`. Its size counts that, or what would be true."""

    def at(where: str, truth: int) -> bytes:
        return lie if where == place else varint(truth)

    content = b"\x00" + at("timestamp", 3) + at("offset", number) + at("key", 2) + b"kk" + at("value", 3) + b"vvv"
    content += at("headers", 2) + at("name", 1) + b"n" + at("header value", 2) + b"hh"
    content += at("second name", 2) + b"\xc3\xa4" + varint(-1)
    size = len(record(number)) - 1 if size_of_truth else len(content)
    return at("size", size) + content


def batch(payload: bytes, count: int, **changes: int) -> bytes:
    empty = encode_batch([], base_offset=BASE_OFFSET, last_offset_delta=LAST_OFFSET_DELTA)
    return resealed(empty, payload, record_count=count, **{"base_timestamp": 1000, **changes})


@pytest.mark.parametrize("size_of_truth", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_a_number_that_lies(place: str, size_of_truth: bool) -> None:
    verdicts = set()
    for lie in LIES:
        lying = record(1, place, lie, size_of_truth=size_of_truth)
        # As the last of its batch, which ends where memory ends, and before another one.
        verdicts.add(refused_or_same(batch(record(0) + lying, 2)))
        verdicts.add(refused_or_same(batch(lying + record(2), 2)))
    assert "refused" in verdicts


def test_every_end_that_is_too_early_or_too_late() -> None:
    whole = record(0) + record(1)
    for size in range(len(whole)):
        assert refused_or_same(batch(whole[:size], 2)) == "refused"
    for count in (-(2**31), -1, 0, 1, 3, 2**31 - 1):
        assert refused_or_same(batch(whole, count)) == "refused"
    assert refused_or_same(batch(whole + b"\x00", 2)) == "refused"
    assert refused_or_same(batch(whole, 2)) == "same"
    assert refused_or_same(batch(b"", 0)) == "same"


def test_a_record_that_ends_early_or_late_and_says_so() -> None:
    """The size is right: it is what lies within that does not fit."""
    body = record(1)[1:]
    for size in range(len(body)):
        assert refused_or_same(batch(record(0) + varint(size) + body[:size], 2)) == "refused"
    for more, count in ((b"\x00", 2), (b"\x01", 2), (bytes(9), 2), (record(2), 3)):
        assert refused_or_same(batch(record(0) + varint(len(body + more)) + body + more, count)) == "refused"


def test_every_byte_that_is_another() -> None:
    whole = record(0) + record(1)
    for place, byte in product(range(len(whole)), (0, 1, 2, 3, 4, 6, 0x3F, 0x40, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)):
        refused_or_same(batch(whole[:place] + bytes([byte]) + whole[place + 1 :], 2))


@pytest.mark.parametrize("kind", TimestampType)
def test_timestamps_at_the_ends_of_64_bits(kind: TimestampType) -> None:
    edge_ms = MAX_TIMESTAMP_MS
    edges = [-(2**63), -(2**63) + 1, -edge_ms - 1, -edge_ms, -1, 0, 1, edge_ms, edge_ms + 1, 2**63 - 1]
    verdicts = set()
    for base, delta in product(edges, edges):
        payload = record(0, "timestamp", varint(delta))
        log = batch(payload, 1, base_timestamp=base, max_timestamp=base, attributes=kind << 3)
        verdicts.add(refused_or_same(log))
    assert verdicts == {"refused", "same"}


@pytest.mark.parametrize("last_offset_delta", [-(2**31), -1, 0, 1, 2, 2**31 - 1])
@pytest.mark.parametrize("base_offset", [-(2**63), -1, 0, 2**63 - 2**31 - 1, 2**63 - 3, 2**63 - 1])
def test_offsets_at_the_ends_of_64_bits(base_offset: int, last_offset_delta: int) -> None:
    for delta in (0, 1, 2, 2**31 - 1, -1, -(2**31)):
        payload = record(0, "offset", varint(delta))
        refused_or_same(batch(payload, 1, base_offset=base_offset, last_offset_delta=last_offset_delta))
