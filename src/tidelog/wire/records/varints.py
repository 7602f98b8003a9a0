"""The zigzag varints of records. Short input is an IndexError: who walks a payload turns it into WireError once."""

from tidelog.wire.errors import WireError


def read_varint(buffer: bytes | bytearray, pos: int) -> tuple[int, int]:
    """A signed 32-bit integer and where it ended."""
    byte = buffer[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    raw = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint is longer than five bytes")
    if raw > 0xFFFFFFFF:
        raise WireError("a varint holds more than 32 bits")
    return (raw >> 1) ^ -(raw & 1), pos


def read_varlong(buffer: bytes | bytearray, pos: int) -> tuple[int, int]:
    """A signed 64-bit integer and where it ended."""
    byte = buffer[pos]
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    raw = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise WireError("a varlong is longer than ten bytes")
    if raw > 0xFFFFFFFFFFFFFFFF:
        raise WireError("a varlong holds more than 64 bits")
    return (raw >> 1) ^ -(raw & 1), pos


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, 32 or 64 bits alike: the encoding is the same."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
