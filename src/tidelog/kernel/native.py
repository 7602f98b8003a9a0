"""The compiled part: the records of one batch, decompressed, into the buffers of Arrow columns.

Numba checks no index, so this code does: nothing is read past what there is, nothing written past what an array holds.
`fill` checks records and copies as many as fit; `measure` checks a whole batch and finds out how much room it takes.

All that is compiled stands in this file, with its constants: the cache knows code by the text of its file alone, and
would not notice a change elsewhere. Integers have 64 bits here, and wrap.
"""

from typing import Final

import numpy as np

from tidelog.kernel.jit import Array, compiled, copy_bytes, inlined

# What is wrong with a batch, where there would be a position otherwise.
PAST_END: Final = -1
BAD_VARINT: Final = -2
BAD_SIZE: Final = -3
BAD_LENGTH: Final = -4
BAD_HEADER_COUNT: Final = -5
NAMELESS_HEADER: Final = -6
WRONG_END: Final = -7
BAD_TIMESTAMP: Final = -8
BAD_OFFSET: Final = -9
TRAILING_BYTES: Final = -10

# How far columns are filled: the places of `at`.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
HEADERS: Final = 3
NAME_BYTES: Final = 4
HEADER_VALUE_BYTES: Final = 5
NULL_KEYS: Final = 6
NULL_VALUES: Final = 7
NULL_HEADERS: Final = 8
NULL_HEADER_VALUES: Final = 9
COUNTERS: Final = 10

# Rows of the arrays that `fill` writes: a column each.
LONGS: Final = 2
OFFSETS: Final = 0
TIMESTAMPS: Final = 1
INTS: Final = 5
TIMESTAMP_TYPES: Final = 0
EPOCHS: Final = 1
KEY_ENDS: Final = 2
VALUE_ENDS: Final = 3
HEADER_ENDS: Final = 4
BITMAPS: Final = 3
KEYS_VALID: Final = 0
VALUES_VALID: Final = 1
HEADERS_VALID: Final = 2
HEADER_INTS: Final = 2
NAME_ENDS: Final = 0
HEADER_VALUE_ENDS: Final = 1

# What a header takes beside its bytes: where its name and its value end.
HEADER_COST: Final = 8

MAX_INT64: Final = 2**63 - 1
US_PER_MS: Final = 1000
MAX_TIMESTAMP_MS: Final = MAX_INT64 // US_PER_MS

_REPLACEMENT_SIZE: Final = 3


@inlined
def _varint(data: Array, pos: int, end: int) -> tuple[int, int]:
    """A signed 32-bit integer and where it ended, or what is wrong with it."""
    if pos >= end:
        return 0, PAST_END
    # An unsigned index spares the question whether it counts from the end.
    byte = data[np.uintp(pos)] & 0xFF
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    raw = byte & 0x7F
    shift = 7
    while True:
        if pos >= end:
            return 0, PAST_END
        byte = data[np.uintp(pos)] & 0xFF
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            return 0, BAD_VARINT
    if raw > 0xFFFFFFFF:
        return 0, BAD_VARINT
    return (raw >> 1) ^ -(raw & 1), pos


@inlined
def _varlong(data: Array, pos: int, end: int) -> tuple[int, int]:
    """A signed 64-bit integer and where it ended, or what is wrong with it."""
    if pos >= end:
        return 0, PAST_END
    byte = data[np.uintp(pos)] & 0xFF
    pos += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos
    raw = byte & 0x7F
    shift = 7
    while True:
        if pos >= end:
            return 0, PAST_END
        byte = data[np.uintp(pos)] & 0xFF
        pos += 1
        # The tenth byte has room for one bit, and is the last.
        if shift == 63 and byte > 1:
            return 0, BAD_VARINT
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    # A shift to the right keeps the sign, which is no sign here.
    return ((raw >> 1) & MAX_INT64) ^ -(raw & 1), pos


@inlined
def _field(data: Array, pos: int, end: int) -> tuple[int, int, int]:
    """Where a field's bytes begin, how many they are (-1: null), and where they end, or what is wrong."""
    size, pos = _varint(data, pos, end)
    start = pos
    if pos >= 0:
        if size < -1 or size > end - pos:
            pos = BAD_LENGTH
        elif size > 0:
            pos += size
    return start, size, pos


@inlined
def _timestamp_us(base_ms: int, delta_ms: int) -> tuple[int, bool]:
    """Microseconds, and whether 64 bits hold them."""
    ms = base_ms + delta_ms
    wrapped = ((base_ms ^ ms) & (delta_ms ^ ms)) < 0
    return ms * US_PER_MS, not wrapped and -MAX_TIMESTAMP_MS <= ms <= MAX_TIMESTAMP_MS


@inlined
def _sequence(data: Array, pos: int, end: int) -> int:
    """The bytes of the UTF-8 sequence at `pos`; negative if it is none: those for which one U+FFFD stands."""
    first = data[np.uintp(pos)] & 0xFF
    if first < 0x80:
        return 1
    # Of the second byte; those behind it have the whole range.
    low = 0x80
    high = 0xBF
    if 0xC2 <= first <= 0xDF:
        need = 2
    elif 0xE0 <= first <= 0xEF:
        need = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        need = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return -1
    for n in range(1, need):
        if pos + n >= end:
            return -n
        byte = data[np.uintp(pos + n)] & 0xFF
        if byte < low or byte > high:
            return -n
        low = 0x80
        high = 0xBF
    return need


@inlined
def _ascii_end(data: Array, pos: int, end: int) -> int:
    while pos < end and data[np.uintp(pos)] < 0x80:
        pos += 1
    return pos


@inlined
def _text_size(data: Array, pos: int, end: int) -> int:
    """The bytes of a name when U+FFFD stands for what is not UTF-8, as in Java."""
    # Nearly all names end here.
    ascii_end = _ascii_end(data, pos, end)
    size = ascii_end - pos
    pos = ascii_end
    while pos < end:
        length = _sequence(data, pos, end)
        size += length if length > 0 else _REPLACEMENT_SIZE
        pos += abs(length)
    return size


@inlined
def _copy_text(out: Array, at: int, data: Array, pos: int, end: int) -> int:
    """Copy a name that `_text_size` has measured; where it ends in `out`."""
    ascii_end = _ascii_end(data, pos, end)
    copy_bytes(out, at, data, pos, ascii_end - pos)
    at += ascii_end - pos
    pos = ascii_end
    while pos < end:
        length = _sequence(data, pos, end)
        if length > 0:
            copy_bytes(out, at, data, pos, length)
            at += length
        else:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += _REPLACEMENT_SIZE
        pos += abs(length)
    return at


@inlined
def _headers(data: Array, pos: int, end: int) -> tuple[int, int, int, int]:
    """Where a record's headers end, which is its own end, or what is wrong; their count, bytes of names, of values."""
    names = values = 0
    count, pos = _varint(data, pos, end)
    if pos < 0:
        return pos, 0, 0, 0
    # Each takes two bytes at least: a count is believed no further than the bytes bear it out.
    if count < 0 or 2 * count > end - pos:
        return BAD_HEADER_COUNT, 0, 0, 0
    for _ in range(count):
        name, size, pos = _field(data, pos, end)
        if pos < 0:
            return pos, 0, 0, 0
        if size < 0:
            return NAMELESS_HEADER, 0, 0, 0
        names += _text_size(data, name, pos)
        _, size, pos = _field(data, pos, end)
        if pos < 0:
            return pos, 0, 0, 0
        values += max(size, 0)
    if pos != end:
        return WRONG_END, 0, 0, 0
    return pos, count, names, values


@inlined
def _mark(bitmap: Array, row: int, valid: bool) -> None:
    """Set or clear the bit of a row, and clear those behind it: one that was taken back may have left them set."""
    spot = row >> 3
    bit = 1 << (row & 7)
    bitmap[spot] = (bitmap[spot] & (bit - 1)) | (bit if valid else 0)


@inlined
def _record(
    data: Array, pos: int, end: int, last_delta: int, base_timestamp: int, log_append: bool
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """Check one record. Returns where it ends or what is wrong; then

    its offset delta and timestamp in microseconds; of its key and its value where they begin and their size; where its
    headers begin, their count, and the bytes of their names and values.
    """
    offset_delta = timestamp = key = key_size = value = value_size = headers = count = names = values = 0
    size, pos = _varint(data, pos, end)
    if pos >= 0:
        if size < 0 or size > end - pos:
            pos = BAD_SIZE
        else:
            end = pos + size
            # One byte of attributes, of which none are defined.
            delta, pos = _varlong(data, pos + 1, end)
            if pos >= 0:
                timestamp, fits = _timestamp_us(base_timestamp, 0 if log_append else delta)
                offset_delta, pos = _varint(data, pos, end)
                if pos >= 0 and not fits:
                    pos = BAD_TIMESTAMP
                if pos >= 0 and not 0 <= offset_delta <= last_delta:
                    pos = BAD_OFFSET
            if pos >= 0:
                key, key_size, pos = _field(data, pos, end)
            if pos >= 0:
                value, value_size, pos = _field(data, pos, end)
            if pos >= 0:
                headers = pos
                pos, count, names, values = _headers(data, pos, end)
    return pos, offset_delta, timestamp, key, key_size, value, value_size, headers, count, names, values


@compiled
def measure(
    data: Array,
    count: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    log_append: bool,
    first_offset: int,
    end_offset: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Check the batch and size up its records in [first_offset, end_offset).

    Returns what is wrong, or where the batch ends; the number of the record at fault; and of the records asked for
    their count, bytes of keys and of values, headers, bytes of their names and values, and the bytes of the largest.
    """
    end = data.size
    last_delta = last_offset - base_offset
    pos = 0
    rows = keys = values = headers = names = header_values = largest = 0
    for number in range(count):
        pos, offset_delta, _, _, key_size, _, value_size, _, header_count, name_bytes, header_value_bytes = _record(
            data, pos, end, last_delta, base_timestamp, log_append
        )
        if pos < 0:
            return pos, number, 0, 0, 0, 0, 0, 0, 0
        if not first_offset <= base_offset + offset_delta < end_offset:
            continue
        key_bytes = max(key_size, 0)
        value_bytes = max(value_size, 0)
        rows += 1
        keys += key_bytes
        values += value_bytes
        headers += header_count
        names += name_bytes
        header_values += header_value_bytes
        size = key_bytes + value_bytes + name_bytes + header_value_bytes + HEADER_COST * header_count
        largest = max(largest, size)
    if pos != end:
        return TRAILING_BYTES, count, 0, 0, 0, 0, 0, 0, 0
    return pos, count, rows, keys, values, headers, names, header_values, largest


@compiled
def fill(
    data: Array,
    pos: int,
    left: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    log_append: bool,
    epoch: int,
    first_offset: int,
    end_offset: int,
    max_bytes: int,
    with_headers: bool,
    at: Array,
    longs: Array,
    ints: Array,
    bitmaps: Array,
    keys: Array,
    values: Array,
    header_ints: Array,
    header_bitmap: Array,
    names: Array,
    header_values: Array,
) -> tuple[int, int]:
    """Append records in [first_offset, end_offset), from `pos` on, until none of `left` is left or one does not fit.

    Where there is no row yet, one that is larger than `max_bytes` fits as well. Returns where the next record begins,
    or what is wrong with it, and how many are left. `at` is where the columns end, before and after: with the old one
    put back, nothing has happened.
    """
    end = data.size
    last_delta = last_offset - base_offset
    max_rows = longs.shape[1]
    row = at[ROWS]
    key_end = at[KEY_BYTES]
    value_end = at[VALUE_BYTES]
    header = at[HEADERS]
    name_end = at[NAME_BYTES]
    header_value_end = at[HEADER_VALUE_BYTES]
    while left > 0:
        (
            next_pos,
            offset_delta,
            timestamp,
            key,
            key_size,
            value,
            value_size,
            headers_at,
            header_count,
            name_bytes,
            header_value_bytes,
        ) = _record(data, pos, end, last_delta, base_timestamp, log_append)
        if next_pos < 0:
            pos = next_pos
            break
        offset = base_offset + offset_delta
        if not first_offset <= offset < end_offset:
            pos = next_pos
            left -= 1
            continue
        if not with_headers:
            header_count = name_bytes = header_value_bytes = 0
        key_bytes = max(key_size, 0)
        value_bytes = max(value_size, 0)
        used = key_end + value_end + name_end + header_value_end + HEADER_COST * header
        size = key_bytes + value_bytes + name_bytes + header_value_bytes + HEADER_COST * header_count
        if row >= max_rows or (row > 0 and used + size > max_bytes):
            break
        if (
            key_end + key_bytes > keys.size
            or value_end + value_bytes > values.size
            or name_end + name_bytes > names.size
            or header_value_end + header_value_bytes > header_values.size
            or header + header_count >= header_ints.shape[1]
        ):
            break
        if key_size < 0:
            at[NULL_KEYS] += 1
        else:
            copy_bytes(keys, key_end, data, key, key_bytes)
            key_end += key_bytes
        if value_size < 0:
            at[NULL_VALUES] += 1
        else:
            copy_bytes(values, value_end, data, value, value_bytes)
            value_end += value_bytes
        if header_count == 0:
            at[NULL_HEADERS] += 1
        else:
            spot = _varint(data, headers_at, next_pos)[1]
            for _ in range(header_count):
                start, _, spot = _field(data, spot, next_pos)
                name_end = _copy_text(names, name_end, data, start, spot)
                start, size, spot = _field(data, spot, next_pos)
                if size < 0:
                    at[NULL_HEADER_VALUES] += 1
                else:
                    copy_bytes(header_values, header_value_end, data, start, size)
                    header_value_end += size
                _mark(header_bitmap, header, size >= 0)
                header += 1
                header_ints[NAME_ENDS, header] = name_end
                header_ints[HEADER_VALUE_ENDS, header] = header_value_end
        _mark(bitmaps[KEYS_VALID], row, key_size >= 0)
        _mark(bitmaps[VALUES_VALID], row, value_size >= 0)
        _mark(bitmaps[HEADERS_VALID], row, header_count > 0)
        longs[OFFSETS, row] = offset
        longs[TIMESTAMPS, row] = timestamp
        ints[TIMESTAMP_TYPES, row] = log_append
        ints[EPOCHS, row] = epoch
        row += 1
        ints[KEY_ENDS, row] = key_end
        ints[VALUE_ENDS, row] = value_end
        ints[HEADER_ENDS, row] = header
        pos = next_pos
        left -= 1
    at[ROWS] = row
    at[KEY_BYTES] = key_end
    at[VALUE_BYTES] = value_end
    at[HEADERS] = header
    at[NAME_BYTES] = name_end
    at[HEADER_VALUE_BYTES] = header_value_end
    return pos, left
