"""Variable-length integers of the protocol (unsigned) and of records (zigzag)."""

from tidelog.wire.errors import WireError


def read_uvarint(buffer: memoryview | bytes, position: int) -> tuple[int, int]:
    """An unsigned 32-bit varint and where it ended. Longer than five bytes is refused."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
    raise WireError("a varint is longer than five bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Appends an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)
