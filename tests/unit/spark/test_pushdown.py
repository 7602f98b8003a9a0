"""Which offsets the filters of a batch query leave (S7)."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan

from tidelog.core.ids import TopicPartition
from tidelog.spark.pushdown import Narrowing
from tidelog.spark.ranges import OffsetRange

WHOLE = [OffsetRange(tp=TopicPartition("a", partition), start=10, end=100, epoch=3) for partition in range(2)]


def left(*filters: Filter, first_at: dict[int, int] | None = None) -> tuple[list[tuple[int, int, int, int]], int]:
    """Partition, start, end and epoch of what is read still, and how many filters Spark has to evaluate."""
    narrowing = Narrowing()
    rest = list(narrowing.push(filters))

    def at_times(asked: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        # Below nought it would be asked for something else than a time.
        assert all(since_ms >= 0 for since_ms in asked.values())
        return {tp: (first_at or {}).get(since_ms, -1) for tp, since_ms in asked.items()}

    return [(each.tp.partition, each.start, each.end, each.epoch) for each in narrowing.apply(WHOLE, at_times)], len(
        rest
    )


def test_partition_and_offset_are_exact() -> None:
    filters = (EqualTo(("partition",), 1), GreaterThan(("offset",), 19), LessThan(("offset",), 30))
    assert left(*filters) == ([(1, 20, 30, -1)], 0)
    assert left(GreaterThanOrEqual(("offset",), 5))[0] == [(0, 10, 100, 3), (1, 10, 100, 3)]


def test_a_time_moves_the_start_and_is_evaluated_again() -> None:
    since = GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    assert left(since, first_at={1000: 40}) == ([(0, 40, 100, -1), (1, 40, 100, -1)], 1)
    assert left(since) == ([], 1)


@pytest.mark.parametrize("since_ms", [-1, -86_400_000])
def test_a_time_before_1970_leaves_records_without_a_timestamp(since_ms: int) -> None:
    """They are of the millisecond before it, and no broker can be asked for such a time."""
    moment = datetime.fromtimestamp(since_ms / 1000, UTC)
    whole = [(0, 10, 100, 3), (1, 10, 100, 3)]
    assert left(GreaterThanOrEqual(("timestamp",), moment), first_at={0: 40}) == (whole, 1)
