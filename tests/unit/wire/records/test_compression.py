"""Codecs: round trips, framing as Java expects it, and bombs that stay small."""

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.errors import WireError
from tidelog.wire.records.compression import Codec, compress, decompress

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1024 * 1024

compressible = st.builds(lambda piece, times: piece * times, st.binary(max_size=40), st.integers(0, 4000))


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.one_of(st.binary(max_size=3000), compressible))
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data)) == data


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [1, 100, 70_000, 300_000])
def test_the_limit_is_exact(codec: Codec, size: int) -> None:
    packed = compress(codec, b"ab" * size)
    assert decompress(codec, packed, 2 * size) == b"ab" * size
    with pytest.raises(WireError):
        decompress(codec, packed, 2 * size - 1)


@pytest.mark.parametrize(("codec", "best"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19)])
def test_levels_are_honoured(codec: Codec, best: int) -> None:
    data = b"".join(b"%d," % (n * n) for n in range(20_000))
    assert len(compress(codec, data, best)) < len(compress(codec, data, 1))


def test_snappy_is_written_as_java_writes_it() -> None:
    data = bytes(range(256)) * 300
    packed = compress(Codec.SNAPPY, data)
    assert packed[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    blocks = []
    pos = 16
    while pos < len(packed):
        (length,) = struct.unpack_from(">i", packed, pos)
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[pos + 4 : pos + 4 + length])))
        pos += 4 + length
    assert b"".join(blocks) == data
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}


def test_raw_snappy_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"librdkafka" * 99))) == b"librdkafka" * 99


def test_lz4_frames_have_independent_blocks_or_java_would_refuse_them() -> None:
    packed = compress(Codec.LZ4, bytes(200_000))
    flags, block_descriptor = packed[4], packed[5]
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert flags >> 6 == 1
    assert flags & 0x20
    assert not flags & 0x03  # reserved bit, dictionary
    assert block_descriptor == 0x40  # 64 KiB, as Kafka's own streams


def test_gzip_members_in_a_row_are_one_stream_up_to_a_bound() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    with pytest.raises(WireError, match="members"):
        decompress(Codec.GZIP, gzip.compress(b"") * 1000)
    with pytest.raises(WireError, match="more than 5 bytes"):
        decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 5)


@pytest.mark.parametrize("codec", PACKED)
def test_a_cut_stream_is_refused(codec: Codec) -> None:
    packed = compress(codec, b"some records " * 500)
    for end in range(0, len(packed), max(1, len(packed) // 40)):
        if codec is Codec.SNAPPY and end == 16:
            continue  # a stream of no blocks
        with pytest.raises(WireError):
            decompress(codec, packed[:end], MIB)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=200), seed=st.integers(0, 2**32))
def test_garbage_is_a_wire_error_or_bytes_within_the_limit(codec: Codec, data: bytes, seed: int) -> None:
    packed = bytearray(compress(codec, b"some records " * 50))
    packed[seed % len(packed)] ^= 1 + seed % 255
    for garbage in (data, bytes(packed), bytes(packed) + data):
        try:
            assert len(decompress(codec, garbage, 1000)) <= 1000
        except WireError:
            continue


def zstd_bomb(window_log: int, blocks: int) -> bytes:
    """Run-length blocks of 128 KiB at four bytes each, with no content size in the frame header."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, (window_log - 10) << 3])
    for index in range(blocks):
        frame += struct.pack("<I", 131072 << 3 | 1 << 1 | (index == blocks - 1))[:3] + b"\0"
    return frame


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, lambda: gzip.compress(bytes(256 * MIB), 1)),
    "snappy": (Codec.SNAPPY, lambda: compress(Codec.SNAPPY, bytes(64 * MIB))),
    "lz4": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(256 * MIB), 1)),
    "zstd, declared": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(256 * MIB), 1)),
    "zstd, undeclared": (Codec.ZSTD, lambda: zstd_bomb(20, 8192)),
    "zstd, huge window": (Codec.ZSTD, lambda: zstd_bomb(31, 100)),
    "zstd lies small": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\x20\x01" + zstd_bomb(20, 8192)[6:]),
    "zstd lies large": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + zstd_bomb(20, 8)[6:]),
    "snappy lies": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"a" * 100),
    "snappy lies within the limit": (Codec.SNAPPY, lambda: b"\x80\x80\x20" + b"a" * 100),
    "xerial lies": (Codec.SNAPPY, lambda: b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"a" * 100),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_the_limit(name: str) -> None:
    codec, build = BOMBS[name]
    bomb = build()
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decompress(codec, bomb, 2 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MIB


def test_gzip_without_its_trailer_is_truncated() -> None:
    packer = zlib.compressobj(wbits=31)
    with pytest.raises(WireError, match="truncated"):
        decompress(Codec.GZIP, packer.compress(b"x") + packer.flush(zlib.Z_SYNC_FLUSH))
