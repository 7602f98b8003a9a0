"""Frames: cut right whatever the reads, and memory follows the bytes received."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.frames import (
    LARGEST_POOLED_BYTES,
    READ_BYTES,
    BadFrameLength,
    BufferPool,
    FrameReader,
    guess_protocol,
)

MAX = 100 * 1024 * 1024


def feed(reader: FrameReader, data: bytes, chunk: int | None = None) -> list[bytes]:
    """Pushes bytes as a socket would and returns the frames that came out."""
    frames: list[bytes] = []
    view = memoryview(data)
    while view:
        room = reader.writable()
        assert len(room) > 0
        count = min(len(room), len(view), chunk or len(view))
        room[:count] = view[:count]
        view = view[count:]
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            frames.append(bytes(frame))
        reader.settle()
    return frames


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(
    sizes=st.lists(st.one_of(st.integers(0, 40), st.integers(0, 20_000)), max_size=12),
    chunks=st.lists(st.integers(1, 9_000), min_size=1, max_size=5),
    crowded=st.booleans(),
)
def test_any_split_gives_the_same_frames(sizes: list[int], chunks: list[int], crowded: bool) -> None:
    bodies = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    pool = BufferPool(comfortable_bytes=0 if crowded else 1 << 30)
    reader = FrameReader(pool, MAX)
    stream, frames, position, turn = framed(*bodies), [], 0, 0
    while position < len(stream):
        count = chunks[turn % len(chunks)]
        frames += feed(reader, stream[position : position + count])
        position += count
        turn += 1
    assert frames == bodies
    assert reader.pending == 0
    assert pool.lent_bytes == 0


def test_a_large_frame_grows_by_doubling_and_is_given_back() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, MAX)
    body = bytes(range(256)) * (20 * 1024 * 4)
    assert feed(reader, framed(body), chunk=100_000) == [body]
    assert reader.capacity == 0
    assert pool.lent_bytes == 0


def test_a_declared_length_costs_nothing() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, MAX)
    feed(reader, struct.pack(">i", MAX) + b"x" * 100)
    assert pool.lent_bytes <= READ_BYTES


def test_capacity_stays_within_twice_what_was_received() -> None:
    reader = FrameReader(BufferPool(), MAX)
    sent = 0
    feed(reader, struct.pack(">i", MAX))
    while sent < 10 * 1024 * 1024:
        feed(reader, b"y" * 50_000)
        sent += 50_000
        assert reader.capacity <= max(READ_BYTES, 2 * (sent + 4))


def test_a_crowded_pool_keeps_half_sent_frames_small() -> None:
    pool = BufferPool(comfortable_bytes=READ_BYTES)
    readers = [FrameReader(pool, MAX) for _ in range(1000)]
    for reader in readers:
        feed(reader, struct.pack(">i", 5000) + b"z" * 10)
    assert pool.lent_bytes < 2 * READ_BYTES + 1000 * 4096 + 4096


def test_a_steady_stream_of_large_frames_keeps_its_buffer_size() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, MAX)
    body = b"p" * 900_000
    feed(reader, framed(body))
    assert len(reader.writable()) == LARGEST_POOLED_BYTES


def test_after_small_frames_the_buffer_shrinks_again() -> None:
    reader = FrameReader(BufferPool(), MAX)
    feed(reader, framed(b"p" * 900_000))
    for _ in range(40):
        feed(reader, framed(b"small"))
    assert len(reader.writable()) == READ_BYTES


@pytest.mark.parametrize("length", [-1, -(2**31), MAX + 1, 2**31 - 1])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(BadFrameLength):
        feed(FrameReader(BufferPool(), MAX), struct.pack(">i", length))


@pytest.mark.parametrize(
    ("first", "word"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH", "SSH"),
    ],
)
def test_the_refusal_names_the_likely_cause(first: bytes, word: str) -> None:
    with pytest.raises(BadFrameLength, match=word):
        feed(FrameReader(BufferPool(), MAX), first)
    assert guess_protocol(b"\0\0\0\x10") is None


def test_an_empty_frame_is_a_frame() -> None:
    assert feed(FrameReader(BufferPool(), MAX), framed(b"", b"a")) == [b"", b"a"]
