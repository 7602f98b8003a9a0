"""Frames out of a stream, addresses out of a string, partitions out of a key."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as foreign_murmur2  # another implementation to agree with

from tidelog.client.addresses import Address, parse_bootstrap
from tidelog.client.errors import ClientError
from tidelog.client.frames import KEPT_BYTES, FrameReader
from tidelog.client.group_member import assign_range
from tidelog.client.partitioner import murmur2, partition_for_key
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import WireError

MIB = 1024 * 1024


def feed(reader: FrameReader, stream: bytes, rng: random.Random) -> None:
    position = 0
    while position < len(stream):
        buffer = reader.buffer()
        count = min(rng.randint(1, len(buffer)), len(stream) - position)
        buffer[:count] = stream[position : position + count]
        reader.advance(count)
        position += count


@given(st.lists(st.integers(1, 200_000), max_size=8), st.randoms(use_true_random=False))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sizes: list[int], rng: random.Random) -> None:
    frames = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    seen: list[bytes] = []
    views: list[memoryview] = []

    def on_frame(frame: memoryview) -> None:
        seen.append(bytes(frame))
        views.append(frame)

    reader = FrameReader(MIB, on_frame)
    feed(reader, b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames), rng)
    assert seen == frames
    # What was handed on is not written to again.
    assert [bytes(view) for view in views] == frames


def large(size: int, filling: int) -> bytes:
    return size.to_bytes(4, "big") + bytes([filling]) * size


def test_a_large_frame_comes_in_the_buffer_of_the_last_one_unless_somebody_still_looks_at_that() -> None:
    got: list[memoryview] = []
    reader = FrameReader(MIB, got.append)
    rng = random.Random(0)
    feed(reader, large(300_000, 1), rng)
    held = got.pop()
    feed(reader, large(200_000, 2), rng)
    second = got.pop()
    assert second.obj is not held.obj
    assert (bytes(held), bytes(second)) == (b"\1" * 300_000, b"\2" * 200_000)
    buffer = second.obj
    # A slice holds it as well: what a message keeps is a part of its frame.
    part = second[1000:2000]
    second.release()
    feed(reader, large(100_000, 3), rng)
    third = got.pop()
    assert third.obj is not buffer and bytes(part) == b"\2" * 1000
    buffer = third.obj
    third.release()
    feed(reader, large(90_000, 4), rng)
    assert got[0].obj is buffer and bytes(got[0]) == b"\4" * 90_000


def test_who_holds_one_frame_and_reads_the_next_makes_two_buffers_and_no_more() -> None:
    got: list[memoryview] = []
    reader = FrameReader(2 * KEPT_BYTES, got.append)
    buffers = set()
    for number in range(1, 10):
        feed(reader, large(KEPT_BYTES // 3, number), random.Random(number))
        buffers.add(id(got[-1].obj))
        if len(got) > 1:
            got.pop(0).release()
    assert len(buffers) == 2


def test_the_buffer_of_a_huge_frame_is_not_kept() -> None:
    got: list[memoryview] = []
    reader = FrameReader(2 * KEPT_BYTES, got.append)
    feed(reader, large(KEPT_BYTES + 1, 1), random.Random(0))
    buffer = got.pop().obj
    feed(reader, large(100_000, 2), random.Random(0))
    second = got[0].obj
    assert isinstance(second, bytearray) and second is not buffer and len(second) == 100_000


@pytest.mark.parametrize("size", [0, -1, MIB + 1, 0x48545450])
def test_a_length_no_frame_may_have_is_refused_before_anything_is_allocated(size: int) -> None:
    reader = FrameReader(MIB, lambda frame: None)
    with pytest.raises(WireError, match="frame of"):
        feed(reader, size.to_bytes(4, "big", signed=True), random.Random(0))


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, [::1]:2,a:1,") == (Address("a", 1), Address("::1", 2))
    assert [str(address) for address in parse_bootstrap("[::1]:2,b:3")] == ["[::1]:2", "b:3"]


@pytest.mark.parametrize("text", ["", ",", "host", "host:", ":1", "host:x", "host:0", "host:65536", "::1:9092", "[]:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ClientError):
        parse_bootstrap(text)


@given(st.binary(max_size=64))
def test_keys_hash_as_other_clients_hash_them(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == foreign_murmur2(key) & 0x7FFFFFFF
    assert 0 <= partition_for_key(key, 7) < 7


def test_range_assignment() -> None:
    members = {"b": ["t"], "a": ["t", "u"], "c": ["t"]}
    assert assign_range(members, {"t": 4, "u": 1}) == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)],
        "b": [TopicPartition("t", 2)],
        "c": [TopicPartition("t", 3)],
    }
    assert assign_range({"a": ["t"]}, {"t": 0, "nobody-reads": 3}) == {"a": []}
