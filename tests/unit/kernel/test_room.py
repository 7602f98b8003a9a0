"""`native.fill` writes nothing past the arrays it is given, which end where writable memory ends."""

import numpy as np
import pytest
from tests.unit.kernel.twin import guarded

from tidelog.kernel import load, native
from tidelog.kernel.jit import Array
from tidelog.wire.records.batch import BATCH_OVERHEAD
from tidelog.wire.records.plain import Record, encode_batch

RECORD = Record(key=b"key", value=b"value", headers=(("name", b"1"), ("n\udcff", b"22"), ("", None)))
COUNT = 3
# What so many of them need: bytes, or elements in a row where there are several.
NEEDS = {"keys": 9, "values": 15, "names": 8 * COUNT, "header_values": 9, "header_ints": 10, "max_rows": COUNT}


def array(size: int, dtype: type, rows: int = 0) -> Array:
    """Filled with ones: what is not written does not look as if it were."""
    there: Array = np.full((rows, size) if rows else size, -1 if dtype is not np.uint8 else 255, dtype)
    return np.frombuffer(guarded(there.tobytes()), dtype).reshape(there.shape)


def fill(room: dict[str, int]) -> tuple[int, int, list[int], Array]:
    """What `fill` returns and where the columns end then, and the offsets."""
    load()
    data = np.frombuffer(guarded(encode_batch([RECORD] * COUNT)[BATCH_OVERHEAD:]), np.uint8)
    data.flags.writeable = False
    rows = room["max_rows"]
    at = np.zeros(native.COUNTERS, np.int64)
    longs = array(rows, np.int64, native.LONGS)
    ints = array(rows + 1, np.int32, native.INTS)
    header_ints = array(room["header_ints"], np.int32, native.HEADER_INTS)
    pos, left = native.fill(
        data,
        0,
        COUNT,
        0,
        COUNT - 1,
        0,
        False,
        7,
        0,
        100,
        1 << 20,
        True,
        at,
        longs,
        ints,
        array(-(-rows // 8), np.uint8, native.BITMAPS),
        array(room["keys"], np.uint8),
        array(room["values"], np.uint8),
        header_ints,
        array(-(-(room["header_ints"] - 1) // 8), np.uint8),
        array(room["names"], np.uint8),
        array(room["header_values"], np.uint8),
    )
    return pos, left, at.tolist(), longs[native.OFFSETS]


def test_all_fit_where_there_is_just_enough_room() -> None:
    pos, left, at, offsets = fill(NEEDS)
    assert (left, at[native.ROWS]) == (0, COUNT)
    assert pos > 0
    assert offsets.tolist() == [0, 1, 2]
    assert at[native.NAME_BYTES] == NEEDS["names"]


@pytest.mark.parametrize("short", NEEDS)
def test_one_less_and_the_last_one_waits(short: str) -> None:
    _, left, at, _ = fill({**NEEDS, short: NEEDS[short] - 1})
    assert (left, at[native.ROWS]) == (1, COUNT - 1)


@pytest.mark.parametrize("short", ["keys", "values", "names", "header_values"])
def test_no_room_at_all(short: str) -> None:
    pos, left, at, _ = fill({**NEEDS, short: 0})
    assert (pos, left, at[native.ROWS]) == (0, COUNT, 0)
