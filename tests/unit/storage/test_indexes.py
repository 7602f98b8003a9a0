"""Both indexes against sorted lists, resident and bisected on disk."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.memory import MemoryDisk
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.time_index import TimeIndex

BASE = 5_000_000_000
gaps = st.lists(st.tuples(st.integers(1, 9), st.integers(61, 5000)), max_size=1500)


def _offset_index(pairs: list[tuple[int, int]]) -> tuple[MemoryDisk, OffsetIndex]:
    disk = MemoryDisk()
    disk.make_dirs("/d")
    index = OffsetIndex(disk, "/d/i.index", BASE)
    for relative, position in pairs:
        index.append(BASE + relative, position)
    return disk, index


def _running_sums(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    offset = position = 0
    pairs = []
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        pairs.append((offset, position))
    return pairs


@given(gaps, st.data())
def test_offset_index(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    pairs = _running_sums(steps)
    disk, index = _offset_index(pairs)
    top_offset, top_position = pairs[-1] if pairs else (0, 0)
    for retired in (False, True):
        if retired:
            index.retire()
        target = data.draw(st.integers(0, top_offset + 3))
        expected = max((position for offset, position in pairs if offset <= target), default=0)
        assert index.position_for(BASE + target) == expected
        limit = data.draw(st.integers(0, top_position + 3))
        assert index.boundary_before(limit) == max((at for _, at in pairs if at <= limit), default=0)
    size = disk.file_size("/d/i.index")
    assert size == 8 * len(pairs)
    again = OffsetIndex(disk, "/d/i.index", BASE, size)
    assert again.entries == len(pairs)
    assert again.last == (pairs[-1] if pairs else None)
    cut = data.draw(st.integers(0, top_position + 10))
    again.truncate_to_position(cut)
    kept = [pair for pair in pairs if pair[1] < cut]
    assert [again.entry(number) for number in range(again.entries)] == kept
    again.append(BASE + top_offset + 1, top_position + 61)
    again.flush()
    assert disk.file_size("/d/i.index") == 8 * (len(kept) + 1)


def test_the_bytes_are_kafkas() -> None:
    disk, index = _offset_index([(7, 100), (300, 5000)])
    index.flush()
    assert disk.read_bytes("/d/i.index").hex(" ", 4) == "00000007 00000064 0000012c 00001388"
    times = TimeIndex(disk, "/d/t.timeindex", BASE)
    times.maybe_append(1_700_000_000_000, BASE + 9)
    times.flush()
    assert disk.read_bytes("/d/t.timeindex").hex(" ", 4) == "0000018b cfe56800 00000009"


@given(st.lists(st.tuples(st.integers(-1, 300), st.integers(1, 9)), max_size=700), st.data())
def test_time_index(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Entries are made only for timestamps later than all before, so the map stays a function of time."""
    disk = MemoryDisk()
    disk.make_dirs("/d")
    index = TimeIndex(disk, "/d/t.timeindex", BASE)
    offset = 0
    pairs: list[tuple[int, int]] = []
    for timestamp, gap in steps:
        offset += gap
        index.maybe_append(timestamp, BASE + offset)
        if timestamp >= 0 and (not pairs or timestamp > pairs[-1][0]):
            pairs.append((timestamp, offset))
    for retired in (False, True):
        if retired:
            index.retire()
        target = data.draw(st.integers(-1, 310))
        before = max((at for timestamp, at in pairs if timestamp < target), default=0)
        assert index.offset_before(target) == BASE + before
    cut = data.draw(st.integers(0, offset + 5))
    index.truncate_to(BASE + cut)
    kept = [pair for pair in pairs if pair[1] < cut]
    assert [index.entry(number) for number in range(index.entries)] == kept
    assert disk.file_size("/d/t.timeindex") == 12 * len(kept)


def test_what_is_wrong_with_an_index_is_found() -> None:
    _, index = _offset_index([(7, 100), (300, 5000)])
    index.retire()
    assert index.problem(16, 6000) is None
    assert "whole number of entries" in str(index.problem(17, 6000))
    assert "outside the segment" in str(index.problem(16, 5000))
    assert index.is_full(16)
    assert not index.is_full(24)
