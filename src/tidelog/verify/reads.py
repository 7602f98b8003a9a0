"""What one reader got from one partition, in order: eight bytes a record, since offsets mostly follow one another."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple


class Run(NamedTuple):
    """A stretch of records at consecutive offsets: `values[first:last]` begin at `offset`.

    `expected` is the offset that should have come; another one begins a new run.
    """

    first: int
    last: int
    offset: int
    expected: int

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.offset + self.last - self.first


class Reads:
    """Codes of values in the order they were read. A reader that is reopened goes on at `position`."""

    __slots__ = ("_expected", "_firsts", "_mark_firsts", "_mark_times", "_offsets", "partition", "position", "values")

    def __init__(self, partition: int, *, position: int = 0) -> None:
        self.partition = partition
        self.position = position
        self.values = array("q")
        self._firsts = array("q")
        self._offsets = array("q")
        self._expected = array("q")
        self._mark_firsts = array("q")
        self._mark_times = array("I")

    def __len__(self) -> int:
        return len(self.values)

    def mark(self, now_ms: int) -> None:
        """What is added from now on was read at this time."""
        if self._mark_firsts and self._mark_firsts[-1] == len(self.values):
            self._mark_times[-1] = now_ms
            return
        self._mark_firsts.append(len(self.values))
        self._mark_times.append(now_ms)

    def add(self, offset: int, code: int) -> None:
        if offset != self.position or not self._firsts:
            self._firsts.append(len(self.values))
            self._offsets.append(offset)
            self._expected.append(self.position)
        self.values.append(code)
        self.position = offset + 1

    def runs(self) -> Iterator[Run]:
        ends = [*self._firsts[1:], len(self.values)] if self._firsts else []
        for first, last, offset, expected in zip(self._firsts, ends, self._offsets, self._expected, strict=True):
            yield Run(first, last, offset, expected)

    def time_ms(self, index: int) -> int | None:
        """When the record at `index` was read, as far as it was marked."""
        mark = bisect_right(self._mark_firsts, index) - 1
        return self._mark_times[mark] if mark >= 0 else None

    def marks(self) -> Iterator[tuple[int, int]]:
        return zip(self._mark_firsts, self._mark_times, strict=True)
