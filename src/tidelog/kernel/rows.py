"""Arrow columns as the arrays that `native_rows` reads: no copies, and always of the same types."""

from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.kernel.jit import Array
from tidelog.kernel.native_rows import Bits, Blobs, HeaderLists

_HEADER_FIELDS: Final = ("key", "value")


def _array(buffer: pa.Buffer | None, kind: type[np.generic]) -> Array:
    """Read-only and aligned, or the kernel would be compiled once more."""
    array = np.empty(0, kind) if buffer is None or buffer.size == 0 else np.frombuffer(buffer, kind)
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


NO_BITS: Final = Bits(_array(None, np.uint8), 0)
NO_BLOBS: Final = Blobs(_array(None, np.int32), _array(None, np.uint8), NO_BITS)
NO_HEADERS: Final = HeaderLists(_array(None, np.int32), NO_BITS, NO_BITS, NO_BLOBS, NO_BLOBS)
NO_INTS: Final = _array(None, np.int32)


def bits(array: pa.Array) -> Bits:
    if array.null_count == 0:
        return NO_BITS
    return Bits(_array(array.buffers()[0], np.uint8), array.offset)


def ints(array: pa.Array) -> Array:
    return _array(array.buffers()[1], np.int32)[array.offset : array.offset + len(array)]


def _offsets(array: pa.Array) -> Array:
    found = _array(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    # Arrow lets an array of nothing have no offsets at all.
    return found if found.size else _array(pa.py_buffer(bytes(4)), np.int32)


def blobs(array: pa.Array) -> Blobs:
    """Of text or bytes; forms with other offsets are brought into this one."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.binary())
    return Blobs(_offsets(array), _array(array.buffers()[2], np.uint8), bits(array))


def header_lists(array: pa.Array) -> HeaderLists:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    headers = array.values
    names, values = (headers.field(name) for name in _HEADER_FIELDS)
    return HeaderLists(_offsets(array), bits(array), bits(headers), blobs(names), blobs(values))
