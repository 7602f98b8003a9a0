"""From offsets to tasks: how much of a backlog one trigger takes, and how it is cut into ranges (S4, S6). Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor
from uuid import UUID

from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.spark.offsets import NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """[start, end) of one partition, for one task. `epoch` is that of the batch before `start`, and `end_epoch` that of
    the batch before the end of the whole range, or a newer one that there was when it was planned: nothing in it is of
    a later one, unless history was rewritten.
    """

    tp: TopicPartition
    start: int
    end: int
    epoch: int = NO_EPOCH
    end_epoch: int = NO_EPOCH
    topic_id: UUID = ZERO_UUID

    @property
    def size(self) -> int:
        """Offsets; compaction and transactions leave fewer records than that."""
        return self.end - self.start


def rate_limited(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends with about `limit` offsets in all, each partition in proportion to its backlog and none left out."""
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    limited = dict(end)
    for tp, size in sizes.items():
        share = limit * (size / total)
        limited[tp] = min(end[tp], start[tp] + (ceil(share) if share < 1 else floor(share)))
    return limited


def cut(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """A task for each range that is not empty; more where a range is too large or the tasks would be too few."""
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        pieces = [piece for each in pieces for piece in _in_parts(each, ceil(each.size / max_records))]
    if min_partitions is None or not pieces or len(pieces) >= min_partitions:
        return pieces
    total = sum(each.size for each in pieces)
    # Small ones stay whole, and do not count when the others are shared out.
    whole = {each for each in pieces if _parts(each.size, total, min_partitions) == 1}
    left = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [
        piece
        for each in pieces
        for piece in _in_parts(each, 1 if each in whole else _parts(each.size, left, wanted))
        if piece.size > 0
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    # Half a task more is one more.
    return max(floor(size / total * wanted + 0.5), 1)


def _in_parts(each: OffsetRange, parts: int) -> list[OffsetRange]:
    if parts <= 1:
        return [each]
    pieces = []
    start = each.start
    for part in range(parts):
        end = start + (each.end - start) // (parts - part)
        # Only the first begins where the epoch is known; what lies before the others, the task before them has read.
        epoch = each.epoch if start == each.start else NO_EPOCH
        pieces.append(replace(each, start=start, end=end, epoch=epoch))
        start = end
    return pieces
