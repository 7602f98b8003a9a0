"""The four codecs, with every output bounded by the caller.

A compressed batch is input from a stranger: a few kilobytes may claim, or really hold, gigabytes. So a
declared size only ever serves as a first guess below the caller's limit, and output is written into a buffer
of our own size: what does not fit ends in a WireError after at most `max_output` bytes of work per try.
"""

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

import cramjam

from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec as Codec

# What a caller without a reason for another number should allow a batch to inflate to.
DEFAULT_MAX_OUTPUT: Final = 64 * 1024 * 1024

GZIP_DEFAULT_LEVEL: Final = -1
LZ4_DEFAULT_LEVEL: Final = 9
ZSTD_DEFAULT_LEVEL: Final = 3

# Java's snappy streams: a 16-byte header, then blocks of at most 32 KiB, each behind its compressed length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 * 1024
_INT32: Final = Struct(">i")
# A snappy element is at least 2 bytes and copies at most 64: a preamble that claims more is a lie.
_SNAPPY_MAX_RATIO: Final = 32

_FIRST_GUESS_RATIO: Final = 4
_FIRST_GUESS_MIN: Final = 64 * 1024
_GROWTH: Final = 4

_GZIP_WBITS: Final = 31
# A stream may be several members in a row, and each costs a copy of what follows it. Clients write one.
_GZIP_MAX_MEMBERS: Final = 8

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_ZSTD_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` as Kafka's own clients would frame it. Snappy has no level."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(GZIP_DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        # Java refuses frames whose blocks depend on each other, which is the library's default.
        lz4 = cramjam.lz4.Compressor(
            level=LZ4_DEFAULT_LEVEL if level is None else level, content_checksum=False, block_linked=False
        )
        lz4.compress(bytes(data))  # it takes nothing else
        return bytes(lz4.finish())
    return bytes(cramjam.zstd.compress(data, level=ZSTD_DEFAULT_LEVEL if level is None else level))


def decompress(codec: Codec, data: Buffer, max_output: int = DEFAULT_MAX_OUTPUT) -> Buffer:
    """The bytes behind `data`, at most `max_output` of them; anything else is a WireError."""
    if codec is Codec.NONE:
        if len(data) > max_output:
            raise _too_large(codec, max_output)
        return data
    if codec is Codec.GZIP:
        return _decompress_gzip(data, max_output)
    if codec is Codec.SNAPPY:
        if data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            return _decompress_xerial(data, max_output)
        return _decompress_snappy_block(data, max_output, max_output)
    if codec is Codec.LZ4:
        guess = max(_FIRST_GUESS_RATIO * len(data), _FIRST_GUESS_MIN)
        return _decompress_growing(codec, cramjam.lz4.decompress_into, data, guess, max_output)
    declared = _zstd_content_size(data)
    if declared is not None and declared > max_output:
        raise _too_large(codec, max_output)
    guess = max(_FIRST_GUESS_RATIO * len(data), _FIRST_GUESS_MIN) if declared is None else declared
    return _decompress_growing(codec, cramjam.zstd.decompress_into, data, guess, max_output)


def _decompress_growing(
    codec: Codec, decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, guess: int, max_output: int
) -> bytearray:
    """Try with the guess, then with larger buffers up to the limit.

    The library does not tell a buffer that is too small from corrupt input in a way to rely on, so both are
    retried: the tries grow geometrically and cost together little more than the last.
    """
    size = min(guess, max_output)
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if size >= max_output:
                raise WireError(f"{codec.name.lower()}: corrupt, or over {max_output} bytes: {error}") from error
            size = min(size * _GROWTH or _FIRST_GUESS_MIN, max_output)
            continue
        del output[written:]
        return output


def _decompress_gzip(data: Buffer, max_output: int) -> bytes:
    members: list[bytes] = []
    budget = max_output
    rest: Buffer = data
    while len(members) < _GZIP_MAX_MEMBERS:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            # One byte more than allowed tells a stream that ends at the limit from one that goes on.
            output = member.decompress(rest, budget + 1)
        except zlib.error as error:
            raise WireError(f"gzip: {error}") from error
        if len(output) > budget:
            raise _too_large(Codec.GZIP, max_output)
        if not member.eof:
            raise WireError("gzip: truncated stream")
        members.append(output)
        budget -= len(output)
        rest = member.unused_data
        if not rest:
            return members[0] if len(members) == 1 else b"".join(members)
    raise WireError(f"gzip: more than {_GZIP_MAX_MEMBERS} members")


def _compress_xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            parts.append(_INT32.pack(len(block)))
            parts.append(block)
    return b"".join(parts)


def _decompress_xerial(data: Buffer, max_output: int) -> bytearray:
    output = bytearray()
    end = len(data)
    pos = len(_XERIAL_HEADER)
    if end < pos:
        raise WireError("snappy: truncated stream header")
    with memoryview(data) as view:
        while pos < end:
            if end - pos < _INT32.size:
                raise WireError("snappy: truncated block length")
            (length,) = _INT32.unpack_from(view, pos)
            pos += _INT32.size
            if not 0 < length <= end - pos:
                raise WireError(f"snappy: block of {length} bytes where {end - pos} are left")
            output += _decompress_snappy_block(view[pos : pos + length], max_output - len(output), max_output)
            pos += length
    return output


def _decompress_snappy_block(data: Buffer, budget: int, max_output: int) -> bytearray:
    """One block; `budget` is what earlier ones have left of `max_output`."""
    try:
        declared = cramjam.snappy.decompress_raw_len(data)
        if declared > budget:
            raise _too_large(Codec.SNAPPY, max_output)
        if declared > _SNAPPY_MAX_RATIO * len(data):
            raise WireError(f"snappy: {len(data)} bytes cannot hold the {declared} they declare")
        output = bytearray(declared)
        written = cramjam.snappy.decompress_raw_into(data, output)
    except cramjam.DecompressionError as error:
        raise WireError(f"snappy: {error}") from error
    if written != declared:
        raise WireError(f"snappy: {written} bytes where {declared} were declared")
    return output


def _zstd_content_size(data: Buffer) -> int | None:
    """What the first frame's header declares, if it does. The window it asks for is bounded by the library."""
    if data[:4] != _ZSTD_MAGIC or len(data) < 6:
        raise WireError("zstd: no frame header")
    descriptor = data[4]
    single_segment = bool(descriptor & 0x20)
    width = _ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6]
    if single_segment and width == 0:
        width = 1
    if width == 0:
        return None
    pos = 5 + (0 if single_segment else 1) + _ZSTD_DICTIONARY_ID_BYTES[descriptor & 3]
    if len(data) < pos + width:
        raise WireError("zstd: truncated frame header")
    declared = int.from_bytes(data[pos : pos + width], "little")
    return declared + 256 if width == 2 else declared


def _too_large(codec: Codec, max_output: int) -> WireError:
    return WireError(f"{codec.name.lower()}: inflates to more than {max_output} bytes")
