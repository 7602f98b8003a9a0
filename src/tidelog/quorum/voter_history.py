"""Who votes, by the offset of the record that says so. The newest in the log counts, committed or not (KIP-853)."""

from typing import NamedTuple

from tidelog.quorum.voters import VoterSet


class VotersAt(NamedTuple):
    """`offset` is -1 when no record says so: the config does, or the formatting of this node."""

    offset: int
    voters: VoterSet


class VoterHistory:
    """Invariant: at least one entry; offsets grow. Entries are replaced, never changed: other threads may read them."""

    def __init__(self, first: VotersAt) -> None:
        self._entries: tuple[VotersAt, ...] = (first,)

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1].voters

    @property
    def latest_offset(self) -> int:
        return self._entries[-1].offset

    def add(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset, (offset, self._entries)
        self._entries = (*self._entries, VotersAt(offset, voters))

    def truncate_to(self, end_offset: int) -> None:
        """The log ends there now: what a lost record said is not in force."""
        self._entries = tuple(each for each in self._entries if each.offset < end_offset) or self._entries[:1]

    def at(self, end_offset: int) -> VoterSet:
        """Those in force for a log that ends at `end_offset`."""
        entries = self._entries
        return next((each.voters for each in reversed(entries) if each.offset < end_offset), entries[0].voters)

    def since(self, end_offset: int) -> list[VoterSet]:
        """Those in force for a log that ends at `end_offset`, and all after them."""
        return [self.at(end_offset), *(each.voters for each in self._entries if each.offset >= end_offset)]

    def forget_before(self, end_offset: int) -> None:
        """Nobody asks for an older end any more: a snapshot stands there."""
        while len(self._entries) > 1 and self._entries[1].offset < end_offset:
            self._entries = self._entries[1:]
