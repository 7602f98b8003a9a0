"""The compiled part of the way back: rows of Arrow columns into the records of batches.

As in `native`, nothing is read or written that was not compared with a size before, all that is compiled stands in this
file, and integers have 64 bits and wrap. What Arrow says of its own arrays (ends of values do not fall) is checked by
Arrow before it comes here.
"""

from typing import Final, NamedTuple

import numpy as np

from tidelog.kernel.jit import Array, compiled, copy_bytes, inlined

# Why `append` stopped at a row.
DONE: Final = 0
# The batch of its partition has no room for it.
FULL: Final = 1
# Nor would an empty one have.
TOO_LARGE: Final = 2
NO_TOPIC: Final = 3
BAD_PARTITION: Final = 4
NO_HEADER: Final = 5
NAMELESS_HEADER: Final = 6

# How far each batch is filled: rows of `state`, a column for each partition.
ENDS: Final = 0
COUNTS: Final = 1
BASE_TIMESTAMPS: Final = 2
MAX_TIMESTAMPS: Final = 3
STATES: Final = 4

# What is known of a topic: rows of `topics`, a column for each that the rows name.
FIRST_SLOTS: Final = 0
PARTITIONS: Final = 1
STICKY: Final = 2
TOPIC_FACTS: Final = 3

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995


class Bits(NamedTuple):
    """Which of an array are there, from bit `first` on; no bytes: all are."""

    bitmap: Array
    first: int


class Blobs(NamedTuple):
    """An array of bytes: where each begins, and the last ends, in `data`."""

    offsets: Array
    data: Array
    valid: Bits


class HeaderLists(NamedTuple):
    """Where the headers of each row begin, and the last ends, among all; and the headers."""

    offsets: Array
    valid: Bits
    headers_valid: Bits
    names: Blobs
    values: Blobs


@inlined
def _has(bits: Bits, row: int) -> bool:
    if bits.bitmap.size == 0:
        return True
    bit = bits.first + row
    there: bool = (bits.bitmap[np.uintp(bit >> 3)] >> (bit & 7)) & 1 == 1
    return there


@inlined
def _size(number: int) -> int:
    """Of a zigzag varint."""
    raw = (number << 1) ^ (number >> 63)
    size = 1
    # What is negative as a signed number has the highest bit, and takes ten bytes.
    while raw < 0 or raw >= 0x80:
        raw = (raw >> 7) & 0x01FF_FFFF_FFFF_FFFF
        size += 1
    return size


@inlined
def _put(out: Array, at: int, number: int) -> int:
    raw = (number << 1) ^ (number >> 63)
    while raw < 0 or raw >= 0x80:
        out[np.uintp(at)] = (raw & 0x7F) | 0x80
        at += 1
        raw = (raw >> 7) & 0x01FF_FFFF_FFFF_FFFF
    out[np.uintp(at)] = raw
    return at + 1


@inlined
def _blob_size(blobs: Blobs, row: int) -> int:
    """Of the bytes with their length; a null is a length."""
    if not _has(blobs.valid, row):
        return 1
    size: int = blobs.offsets[row + 1] - blobs.offsets[row]
    return _size(size) + size


@inlined
def _put_blob(out: Array, at: int, blobs: Blobs, row: int) -> int:
    if not _has(blobs.valid, row):
        return _put(out, at, -1)
    start = blobs.offsets[row]
    size: int = blobs.offsets[row + 1] - start
    at = _put(out, at, size)
    copy_bytes(out, at, blobs.data, start, size)
    return at + size


@inlined
def _murmur2(data: Array, start: int, size: int) -> int:
    """As `client.partitioner`, which says what it is."""
    h = _SEED ^ size
    end = start + size
    whole = start + (size & ~3)
    pos = start
    while pos < whole:
        k = (
            (data[np.uintp(pos)] & 0xFF)
            | (data[np.uintp(pos + 1)] & 0xFF) << 8
            | (data[np.uintp(pos + 2)] & 0xFF) << 16
            | (data[np.uintp(pos + 3)] & 0xFF) << 24
        )
        k = (k * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        pos += 4
    if pos < end:
        tail = 0
        shift = 0
        while pos < end:
            tail |= (data[np.uintp(pos)] & 0xFF) << shift
            shift += 8
            pos += 1
        h = ((h ^ tail) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


@inlined
def _headers_size(headers: HeaderLists, row: int) -> int:
    """With their count, or why they cannot be written, which is negative."""
    if headers.offsets.size == 0 or not _has(headers.valid, row):
        return 1
    start = headers.offsets[row]
    end = headers.offsets[row + 1]
    size = _size(end - start)
    for header in range(start, end):
        if not _has(headers.headers_valid, header):
            return -NO_HEADER
        if not _has(headers.names.valid, header):
            return -NAMELESS_HEADER
        size += _blob_size(headers.names, header) + _blob_size(headers.values, header)
    return size


@inlined
def _put_headers(out: Array, at: int, headers: HeaderLists, row: int) -> int:
    if headers.offsets.size == 0 or not _has(headers.valid, row):
        return _put(out, at, 0)
    start = headers.offsets[row]
    end = headers.offsets[row + 1]
    at = _put(out, at, end - start)
    for header in range(start, end):
        at = _put_blob(out, at, headers.names, header)
        at = _put_blob(out, at, headers.values, header)
    return at


@compiled
def append(
    row: int,
    rows: int,
    now_ms: int,
    keys: Blobs,
    values: Blobs,
    headers: HeaderLists,
    partitions: Array,
    partitions_valid: Bits,
    row_topics: Array,
    row_topics_valid: Bits,
    topics: Array,
    capacity: int,
    head: int,
    state: Array,
    out: Array,
) -> tuple[int, int, int]:
    """Append rows from `row` on to the batches of their partitions, until none is left or one does not go.

    Returns that row, why it does not go, and the slot of its batch (or the partition that there is not). Each slot is
    `capacity` bytes of `out`, the first `head` of which are left alone. No keys, partitions, topics or headers: arrays
    of no size.
    """
    while row < rows:
        topic = 0
        if row_topics.size:
            if not _has(row_topics_valid, row):
                return row, NO_TOPIC, 0
            topic = row_topics[row]
        first, count = topics[FIRST_SLOTS, topic], topics[PARTITIONS, topic]
        has_key = keys.offsets.size > 0 and _has(keys.valid, row)
        if partitions.size and _has(partitions_valid, row):
            partition = partitions[row]
            if partition < 0 or partition >= count:
                return row, BAD_PARTITION, partition
        elif has_key:
            start = keys.offsets[row]
            hashed = _murmur2(keys.data, start, keys.offsets[row + 1] - start)
            partition = (hashed & 0x7FFFFFFF) % count
        else:
            partition = topics[STICKY, topic] % count
        slot = first + partition
        number = state[COUNTS, slot]
        delta_ms = now_ms - state[BASE_TIMESTAMPS, slot] if number else 0
        headers_size = _headers_size(headers, row)
        if headers_size < 0:
            return row, -headers_size, slot
        key_size = _blob_size(keys, row) if has_key else 1
        size = 1 + _size(delta_ms) + _size(number) + key_size + _blob_size(values, row) + headers_size
        end = state[ENDS, slot] if number else head
        if end + _size(size) + size > capacity:
            return row, FULL if number else TOO_LARGE, slot
        at = slot * capacity + end
        at = _put(out, at, size)
        out[np.uintp(at)] = 0
        at = _put(out, at + 1, delta_ms)
        at = _put(out, at, number)
        at = _put_blob(out, at, keys, row) if has_key else _put(out, at, -1)
        at = _put_blob(out, at, values, row)
        at = _put_headers(out, at, headers, row)
        if number == 0:
            state[BASE_TIMESTAMPS, slot] = now_ms
            state[MAX_TIMESTAMPS, slot] = now_ms
        elif now_ms > state[MAX_TIMESTAMPS, slot]:
            state[MAX_TIMESTAMPS, slot] = now_ms
        state[ENDS, slot] = at - slot * capacity
        state[COUNTS, slot] = number + 1
        row += 1
    return row, DONE, 0
