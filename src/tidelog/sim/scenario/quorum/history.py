"""What was ever committed, and the dumb replica: every value replayed from the first, no snapshot, no log.

The quorum's user here is a map: each record is `key=value`. A snapshot is the map, sorted.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidelog.quorum.control_records import VotersRecord
from tidelog.quorum.metadata_log import LogBatch
from tidelog.sim.scenario.quorum.disk import Batch

State = dict[str, str]


def apply_values(state: State, values: Iterable[bytes]) -> None:
    for value in values:
        key, _, content = value.decode().partition("=")
        state[key] = content


def snapshot_values(state: State) -> list[bytes]:
    return [f"{key}={state[key]}".encode() for key in sorted(state)]


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch, and the map and the voters once it is replayed. No voters: those of the configuration hold."""

    batch: Batch
    content: LogBatch
    state: State
    voters: tuple[int, ...] | None


class CommittedHistory:
    """Invariant: batches follow each other without a gap from offset 0; only ever appended to."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self._bases: list[int] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].batch.last_offset + 1 if self.batches else 0

    def append(self, batch: Batch, content: LogBatch) -> None:
        assert batch.base_offset == self.end_offset, (batch, self.end_offset)
        state = dict(self.batches[-1].state) if self.batches else {}
        voters = self.batches[-1].voters if self.batches else None
        apply_values(state, content.values)
        for message in content.control:
            if isinstance(message, VotersRecord):
                voters = tuple(sorted(each.voter_id for each in message.voters))
        self.batches.append(CommittedBatch(batch, content, state, voters))
        self._bases.append(batch.base_offset)

    def since(self, offset: int) -> Iterator[CommittedBatch]:
        """Batches whose first record is at `offset` or behind it."""
        return iter(self.batches[bisect_left(self._bases, offset) :])

    def ending_at(self, end_offset: int) -> CommittedBatch | None:
        """The batch whose last record is the one before `end_offset`; None if there is no such batch."""
        at = bisect_left(self._bases, end_offset) - 1
        if at < 0 or self.batches[at].batch.last_offset + 1 != end_offset:
            return None
        return self.batches[at]
