"""Leader epoch -> first offset written in it, for one log (rules E1 and E2).

In memory this is the truth; on disk `leader-epoch-checkpoint` is written before the log's recovery point passes an
entry (`Log.flush`), on truncation and on close. What a crash loses lies above the recovery point, where every batch is
read again and carries its epoch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter

from tidelog.storage.checkpoints import EpochEntry

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_epoch_of = attrgetter("epoch")
_start_of = attrgetter("start_offset")


class EpochCache:
    """Invariant: both columns of `entries` strictly increase."""

    __slots__ = ("dirty", "entries")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: list[EpochEntry] = []
        # Whether the checkpoint on disk is behind `entries`.
        self.dirty = False
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.dirty = False

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    @property
    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Opens `epoch` at `start_offset`; whether that was news.

        Entries that contradict the newcomer (an epoch or a start not below its own) are what a former leader wrote and
        nobody kept: they go.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}: both must be at least 0")
        entries = self.entries
        if entries:
            last = entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return False
            while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
                entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.dirty = True
        return True

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets every epoch that starts at or after `end_offset`: the log ends there now."""
        keep = bisect_left(self.entries, end_offset, key=_start_of)
        if keep < len(self.entries):
            del self.entries[keep:]
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets epochs that end at or before `start_offset`; the one it falls into now starts there."""
        entries = self.entries
        covering = bisect_right(entries, start_offset, key=_start_of) - 1
        if covering >= 0 and entries[covering].start_offset < start_offset:
            entries[: covering + 1] = [EpochEntry(entries[covering].epoch, start_offset)]
            self.dirty = True
        elif covering > 0:
            del entries[:covering]
            self.dirty = True

    def clear(self) -> None:
        if self.entries:
            self.entries.clear()
            self.dirty = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """(epoch, end offset) of the largest epoch known not above the one asked for (rule E2)."""
        entries = self.entries
        if not entries or epoch == UNDEFINED_EPOCH:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        above = bisect_right(entries, epoch, key=_epoch_of)
        if above == len(entries):
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if above == 0:
            return EpochEntry(epoch, entries[0].start_offset)
        return EpochEntry(entries[above - 1].epoch, entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which `offset` was written, None below the first entry."""
        position = bisect_right(self.entries, offset, key=_start_of)
        return self.entries[position - 1].epoch if position else None
