"""What the files beside a segment say of it, held against its batches. They may know less than there is, never else."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")


class SegmentMap:
    """Where the batches of a segment begin, and how late they are: four numbers a batch."""

    def __init__(self) -> None:
        self.positions = array("q")
        self.bases = array("q")
        self.lasts = array("q")
        # The newest timestamp up to and with each batch.
        self.newest = array("q")

    def add(self, position: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        self.positions.append(position)
        self.bases.append(base_offset)
        self.lasts.append(last_offset)
        self.newest.append(max(max_timestamp, self.newest[-1] if self.newest else -1))


def wrong_offset_index(data: bytes, base: int, batches: SegmentMap) -> Iterator[tuple[int, int, str]]:
    """The offset, the position in the index and what is wrong. An entry leads to a batch at or before its offset."""
    previous = (-1, -1)
    for number, (relative, position) in enumerate(_entries(data, OFFSET_ENTRY)):
        offset, at = base + relative, number * OFFSET_ENTRY.size
        if relative <= previous[0] or position <= previous[1]:
            yield offset, at, f"entry {number} is not above the entry before it"
            return
        previous = (relative, position)
        index = bisect_right(batches.positions, position) - 1
        if index < 0 or batches.positions[index] != position:
            if not batches.positions or position > batches.positions[-1]:
                # Of a segment that is being written, or whose end was not read.
                return
            yield offset, at, f"entry {number} points to position {position}, where no batch begins"
        elif batches.bases[index] > offset:
            yield offset, at, f"entry {number} points to offset {batches.bases[index]}, past offset {offset}"


def wrong_time_index(data: bytes, base: int, batches: SegmentMap) -> Iterator[tuple[int, int, str]]:
    """An entry promises that nothing up to its offset is later than its timestamp."""
    previous = (-1, -1)
    for number, (timestamp, relative) in enumerate(_entries(data, TIME_ENTRY)):
        offset, at = base + relative, number * TIME_ENTRY.size
        if timestamp < previous[0] or relative < previous[1]:
            yield offset, at, f"entry {number} is before the entry before it"
            return
        previous = (timestamp, relative)
        whole = bisect_right(batches.lasts, offset)
        if whole and batches.newest[whole - 1] > timestamp:
            yield (
                offset,
                at,
                f"entry {number} claims that no timestamp up to offset {offset} is later than {timestamp}, but "
                f"{batches.newest[whole - 1]} is",
            )


def _entries(data: bytes, entry: Struct) -> Iterator[tuple[int, int]]:
    whole = len(data) - len(data) % entry.size
    for number, (first, second) in enumerate(entry.iter_unpack(data[:whole])):
        # Kafka preallocates indexes: zeros behind the last entry are room, not entries.
        if number and first == second == 0:
            return
        yield first, second
