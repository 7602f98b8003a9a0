"""The segments of one log, in order of their base offsets."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.storage.segment import Segment


class Segments:
    """Invariant: base offsets strictly increase; the last segment is the active one."""

    __slots__ = ("_bases", "_list", "active")

    active: Segment

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._list: list[Segment] = []

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, number: int) -> Segment:
        return self._list[number]

    def add(self, segment: Segment) -> None:
        """A segment behind all others: the new active one."""
        assert not self._bases or segment.base_offset > self._bases[-1], (segment.path, self._bases[-1])
        self._bases.append(segment.base_offset)
        self._list.append(segment)
        self.active = segment

    def remove(self, segment: Segment) -> None:
        number = bisect_left(self._bases, segment.base_offset)
        assert self._list[number] is segment, segment.path
        del self._bases[number]
        del self._list[number]
        if self._list:
            self.active = self._list[-1]

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Puts one segment in the place of several neighbours (compaction)."""
        first = bisect_left(self._bases, old[0].base_offset)
        assert self._list[first : first + len(old)] == old
        self._list[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self.active = self._list[-1]

    def floor(self, offset: int) -> Segment | None:
        """The segment whose range holds `offset`."""
        number = bisect_right(self._bases, offset) - 1
        return self._list[number] if number >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        return self.after_offset(segment.base_offset)

    def after_offset(self, offset: int) -> Segment | None:
        """The first segment that starts beyond `offset`."""
        number = bisect_right(self._bases, offset)
        return self._list[number] if number < len(self._list) else None

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all behind it."""
        return self._list[max(0, bisect_right(self._bases, offset) - 1) :]

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._list)
