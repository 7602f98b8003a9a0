"""S4, S6: how much one trigger takes, and into which tasks it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.ids import TopicPartition
from tidelog.spark.ranges import OffsetRange, cut, rate_limited


def tp(number: int) -> TopicPartition:
    return TopicPartition("a", number)


def test_a_limit_is_shared_by_backlog_and_leaves_nobody_out() -> None:
    start = {tp(0): 0, tp(1): 100, tp(2): 0, tp(3): 5}
    end = {tp(0): 900, tp(1): 200, tp(2): 1, tp(3): 5}
    assert rate_limited(100, start, end) == {tp(0): 89, tp(1): 109, tp(2): 1, tp(3): 5}


def test_a_limit_above_the_backlog_takes_it_all() -> None:
    assert rate_limited(100, {tp(0): 1}, {tp(0): 9, tp(1): 5}) == {tp(0): 9, tp(1): 5}


ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), max_size=6).map(
    lambda found: [
        OffsetRange(tp=tp(number), start=start, end=start + size, epoch=3) for number, (start, size) in enumerate(found)
    ]
)


@given(ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1, 200))
def test_tasks_cover_every_offset_once(
    wanted: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = cut(wanted, min_partitions=min_partitions, max_records=max_records)
    for each in wanted:
        own = [piece for piece in pieces if piece.tp == each.tp]
        assert [offset for piece in own for offset in range(piece.start, piece.end)] == list(
            range(each.start, each.end)
        )
        # Where the epoch of the batch before is not known, none is claimed.
        assert [piece.epoch for piece in own] == [3, *[-1] * (len(own) - 1)][: len(own)]
    assert all(piece.size > 0 for piece in pieces)
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


@pytest.mark.parametrize(
    ("sizes", "min_partitions", "wanted"),
    [
        ([100, 100], None, [100, 100]),
        ([100, 100], 2, [100, 100]),
        ([100, 100], 4, [50, 50, 50, 50]),
        ([1000, 1], 4, [333, 333, 334, 1]),
        ([0, 7], 3, [2, 2, 3]),
    ],
)
def test_few_tasks_become_more(sizes: list[int], min_partitions: int | None, wanted: list[int]) -> None:
    given_ranges = [OffsetRange(tp=tp(number), start=0, end=size) for number, size in enumerate(sizes)]
    assert [piece.size for piece in cut(given_ranges, min_partitions=min_partitions)] == wanted
