"""Readers and writers of messages, compiled from their declarations (`wire.schema`), one per class and version.

Compiled as Python source: runs of fixed-size fields become one `struct` call, and nothing is interpreted per field.
What comes from a peer is checked before it costs anything: a count or a length must fit into the bytes that are left,
and the number of array entries and tagged fields of one message is bounded by `Limits`, however it spreads them.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidelog.wire.buffers import Buffer
from tidelog.wire.codegen import compile_reader, compile_writer
from tidelog.wire.errors import WireError
from tidelog.wire.schema import spec_of

T = TypeVar("T")
Reader = Callable[[memoryview, int, list[int]], tuple[Any, int]]
Hole = tuple[int, Buffer]
Writer = Callable[[bytearray, Any, list[Hole]], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one message may unfold to, whatever its bytes declare."""

    max_elements: int = 100_000
    max_tagged_fields: int = 1_000


REQUEST_LIMITS: Final = Limits()
# Answers come from a broker that the reader chose to talk to, and describe whole clusters.
RESPONSE_LIMITS: Final = Limits(max_elements=20_000_000, max_tagged_fields=1_000_000)


_LENGTH: Final = struct.Struct(">i")

_READERS: dict[tuple[type, int], Reader] = {}
_WRITERS: dict[tuple[type, int], Writer] = {}


def reader_for(cls: type, version: int) -> Reader:
    """The compiled reader of a message at a version; compiled when first needed."""
    reader = _READERS.get((cls, version))
    if reader is None:
        reader = compile_reader(cls, version, flexible=version in spec_of(cls).flexible)
        _READERS[cls, version] = reader
    return reader


def writer_for(cls: type, version: int) -> Writer:
    """The compiled writer of a message at a version; compiled when first needed."""
    writer = _WRITERS.get((cls, version))
    if writer is None:
        writer = compile_writer(cls, version, flexible=version in spec_of(cls).flexible)
        _WRITERS[cls, version] = writer
    return writer


def read_message(
    cls: type[T], version: int, buffer: Buffer, *, position: int = 0, limits: Limits = REQUEST_LIMITS
) -> T:
    """Reads one message; bytes behind it are ignored, as Kafka ignores them. WireError when it is malformed.

    `records` fields are views of `buffer`; everything else is copied out of it.
    """
    value, _ = read_prefix(cls, version, buffer, position=position, limits=limits)
    return value


def read_prefix(
    cls: type[T], version: int, buffer: Buffer, *, position: int = 0, limits: Limits = REQUEST_LIMITS
) -> tuple[T, int]:
    """As `read_message`, and also tells where the message ended."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    budget = [limits.max_elements, limits.max_tagged_fields]
    try:
        return reader_for(cls, version)(view, position, budget)
    except (struct.error, IndexError) as error:
        raise WireError(f"{cls.__name__} v{version}: the bytes end early ({len(view)} bytes)") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{cls.__name__} v{version}: a string is not UTF-8") from error
    except WireError as error:
        raise WireError(f"{cls.__name__} v{version}: {error}") from None


def write_message(value: Any, version: int) -> bytes:
    """The message as bytes, records copied in."""
    out = bytearray()
    holes: list[Hole] = []
    writer_for(type(value), version)(out, value, holes)
    if not holes:
        return bytes(out)
    return b"".join(_pieces(out, holes))


def encode_frame(value: Any, version: int, header: bytes) -> list[Buffer]:
    """A whole frame (length, header, message) as buffers to be sent in order; records buffers are not copied."""
    out = bytearray(4)
    out += header
    holes: list[Hole] = []
    writer_for(type(value), version)(out, value, holes)
    size = len(out) - 4
    for _, records in holes:
        size += len(records)
    _LENGTH.pack_into(out, 0, size)
    if not holes:
        return [out]
    return _pieces(out, holes)


def _pieces(out: bytearray, holes: list[Hole]) -> list[Buffer]:
    pieces: list[Buffer] = []
    view = memoryview(out)
    start = 0
    for position, records in holes:
        if position > start:
            pieces.append(view[start:position])
        pieces.append(records)
        start = position
    if start < len(out):
        pieces.append(view[start:])
    return pieces
