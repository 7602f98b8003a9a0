"""Filters that narrow the offsets of a batch (S7): on partition and offset exactly, on timestamp from below.

Timestamps need not follow offsets. So a lower bound moves the start to the first record that is that late, which is
sound, and Spark evaluates the filter again; an upper bound moves nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tidelog.core.ids import TopicPartition
from tidelog.spark.ranges import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Narrowing:
    """What the filters of a query leave of it."""

    partitions: set[int] | None = None
    first: int = 0
    end: int | None = None
    since_ms: int | None = None
    topics: set[str] | None = None
    _taken: list[Filter] = field(default_factory=list)

    def push(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Takes what it can, and gives back what Spark has to evaluate still."""
        for each in filters:
            column = each.attribute if isinstance(each, _COMPARISONS) else ()
            taken = len(column) == 1 and self._take(column[0], each)
            if not taken:
                yield each

    def _take(self, column: str, each: Any) -> bool:
        if column == "partition" and isinstance(each, EqualTo | In):
            wanted = set(each.value) if isinstance(each, In) else {each.value}
            self.partitions = wanted if self.partitions is None else self.partitions & wanted
            return True
        if column == "topic" and isinstance(each, EqualTo | In):
            named = set(each.value) if isinstance(each, In) else {each.value}
            self.topics = named if self.topics is None else self.topics & named
            return True
        if column == "offset" and isinstance(each.value, int):
            return self._take_offset(each)
        if column == "timestamp" and isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            since_ms = _milliseconds(each.value)
            if since_ms is not None:
                self.since_ms = since_ms if self.since_ms is None else max(self.since_ms, since_ms)
        return False

    def _take_offset(self, each: Any) -> bool:
        if isinstance(each, EqualTo):
            self._bound(each.value, each.value + 1)
        elif isinstance(each, GreaterThan):
            self._bound(each.value + 1, None)
        elif isinstance(each, GreaterThanOrEqual):
            self._bound(each.value, None)
        elif isinstance(each, LessThan):
            self._bound(0, each.value)
        elif isinstance(each, LessThanOrEqual):
            self._bound(0, each.value + 1)
        else:
            return False
        return True

    def _bound(self, first: int, end: int | None) -> None:
        self.first = max(self.first, first)
        if end is not None:
            self.end = end if self.end is None else min(self.end, end)

    def apply(
        self, ranges: Iterable[OffsetRange], at_times: Callable[[dict[TopicPartition, int]], dict[TopicPartition, int]]
    ) -> list[OffsetRange]:
        """`at_times` gives the first offset at or after a time; -1 if there is none."""
        left = [
            each
            for each in ranges
            if (self.partitions is None or each.tp.partition in self.partitions)
            and (self.topics is None or each.tp.topic in self.topics)
        ]
        begins: dict[TopicPartition, int] = {}
        if self.since_ms is not None and left:
            begins = at_times({each.tp: self.since_ms for each in left})
        narrowed = []
        for each in left:
            begin = begins.get(each.tp, 0)
            start = each.end if begin < 0 else max(each.start, self.first, begin)
            end = each.end if self.end is None else min(each.end, self.end)
            if start < end:
                narrowed.append(replace(each, start=start, end=end, epoch=each.epoch if start == each.start else -1))
        return narrowed


_COMPARISONS: Final = (EqualTo, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def _milliseconds(value: Any) -> int | None:
    """Rounded down: what is later within the same millisecond must not be left out. None where nothing may be: before
    1970, where brokers know no times and records without a timestamp are.
    """
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo is not None else value.astimezone()
    since_ms = (moment - _EPOCH) // (datetime.resolution * 1000)
    return since_ms if since_ms >= 0 else None
