"""What must hold after every step: the Quorum invariants, each a class with a plain statement.

They look at disks, messages and what members say of themselves, and share no code with what they judge. Each keeps
the history it needs; `check` is called after every step.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from tidelog.quorum.election_state import read_election_state
from tidelog.quorum.errors import QuorumError
from tidelog.sim.scenario.quorum.disk import Batch
from tidelog.sim.scenario.quorum.history import CommittedHistory, snapshot_values
from tidelog.sim.scenario.quorum.member import Member


class InvariantBroken(AssertionError):
    """Which one, and how."""


class Cluster(Protocol):
    """What an invariant may look at."""

    history: CommittedHistory

    @property
    def members(self) -> dict[int, Member]: ...


class Invariant:
    """One statement about the quorum as a whole. `touched` are the members a step had to do with: no other changed."""

    statement: ClassVar[str]

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        raise NotImplementedError

    def broken(self, how: str) -> InvariantBroken:
        return InvariantBroken(f"{type(self).__name__} ({self.statement}): {how}")


class OneLeaderPerEpoch(Invariant):
    statement = "an epoch has at most one leader"

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            if member.raft is None or not member.raft.is_leader:
                continue
            first = self._leaders.setdefault(member.raft.epoch, member.id)
            if first != member.id:
                raise self.broken(f"epoch {member.raft.epoch} has the leaders {first} and {member.id}")


class OneVotePerEpoch(Invariant):
    statement = "a voter votes at most once in an epoch, even after a crash"

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], int] = {}
        self._seen: dict[int, bytes] = {}

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            path = member.quorum_state_path
            content = member.disk.read_bytes(path) if member.disk.exists(path) else b""
            if self._seen.get(member.id) == content:
                continue
            self._seen[member.id] = content
            try:
                state = read_election_state(member.disk, path)
            except QuorumError:
                continue  # torn by a power cut: nobody can start from it
            if state is None or state.voted is None:
                continue
            first = self._votes.setdefault((member.id, state.epoch), state.voted.id)
            if first != state.voted.id:
                raise self.broken(f"{member.id} voted in epoch {state.epoch} for {first} and for {state.voted.id}")


class SentAfterStored(Invariant):
    statement = "a node sends a message only after its epoch and vote are on stable storage"

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            while member.sent:
                sent = member.sent.pop(0)
                stored = member.durable_election_state()
                if stored.epoch < sent.epoch:
                    raise self.broken(f"{member.id} sent {sent.text}, its stored epoch is {stored.epoch}")
                if sent.vote_for is None or stored.epoch > sent.epoch:
                    continue
                if stored.voted is None or stored.voted.id != sent.vote_for:
                    raise self.broken(
                        f"{member.id} sent {sent.text} to {sent.vote_for}, its stored vote is {stored.voted}"
                    )


class HighWatermarkMonotonic(Invariant):
    statement = "a running member's high watermark never decreases, nor does it from one leader to the next"

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            if member.raft is None:
                continue
            mark = member.raft.high_watermark
            key = (member.id, member.incarnation)
            if 0 <= mark < self._last.get(key, 0):
                raise self.broken(f"that of {member.id} went from {self._last[key]} to {mark}")
            self._last[key] = max(mark, self._last.get(key, 0))
            if mark > member.raft.log.log_end_offset:
                raise self.broken(f"that of {member.id} is {mark}, its log ends at {member.raft.log.log_end_offset}")


class CommittedNeverChanges(Invariant):
    statement = "a committed record never changes and is the same on every member that considers it committed"

    def __init__(self) -> None:
        self._checked: dict[tuple[int, int], int] = {}

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            if member.raft is None:
                continue
            key = (member.id, member.incarnation)
            start = max(self._checked.get(key, 0), member.raft.log.log_start_offset)
            mark = member.raft.high_watermark
            if mark <= start:
                continue
            self._compare(member, start, mark, cluster.history)
            self._checked[key] = mark

    def _compare(self, member: Member, start: int, mark: int, history: CommittedHistory) -> None:
        known = {each.batch.base_offset: each.batch for each in history.since(start)}
        for batch, content in member.batches(start, mark):
            if batch.base_offset < start:
                continue
            if batch.base_offset == history.end_offset:
                history.append(batch, content)
            elif known.get(batch.base_offset) != batch:
                first = known.get(batch.base_offset)
                raise self.broken(f"{member.id} has committed {batch}, before it was {first}")


class MajorityHoldsCommitted(Invariant):
    statement = "a committed record is on stable storage at a majority of the voters of that time"

    def __init__(self) -> None:
        self._end = 0
        self._voters: tuple[int, ...] = ()
        self._promises = -1

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            # Only a leader commits. What it knew to be committed when it was elected others have committed before.
            if member.raft is not None and member.raft.is_leader and member.raft.high_watermark > self._end:
                self._end, self._voters = member.raft.high_watermark, member.voter_ids
                self._promises = -1
        if self._promises == (promises := sum(member.disk.promises for member in cluster.members.values())):
            return
        self._promises = promises
        committed = [each.batch for each in cluster.history.batches if each.batch.last_offset < self._end]
        holding = [each for each in self._voters if holds(cluster.members[each], committed)]
        if self._end and len(holding) < len(self._voters) // 2 + 1:
            raise self.broken(f"only {holding} hold every record below {self._end}, of the voters {list(self._voters)}")


class LeaderHoldsCommitted(Invariant):
    statement = "a new leader's log has every committed record"

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            raft = member.raft
            if raft is None or not raft.is_leader or raft.epoch in self._seen:
                continue
            self._seen.add(raft.epoch)
            start = raft.log.log_start_offset
            own = {batch for batch, _ in member.batches(start, raft.log.log_end_offset)}
            missing = [each.batch for each in cluster.history.since(start) if each.batch not in own]
            if missing:
                raise self.broken(f"{member.id} leads epoch {raft.epoch} without {missing[0]}")


class NoTruncationBelowHighWatermark(Invariant):
    statement = "no running member gives up a record below its high watermark, or a committed record that it holds"

    def __init__(self) -> None:
        self._marks: dict[tuple[int, int], int] = {}

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            if member.raft is None:
                continue
            key = (member.id, member.incarnation)
            end = member.raft.log.log_end_offset
            if end < self._marks.get(key, 0):
                raise self.broken(f"{member.id} cut its log to {end}, {self._marks[key]} was its high watermark")
            self._marks[key] = max(self._marks.get(key, 0), member.raft.high_watermark)


class SnapshotIsReplay(Invariant):
    statement = "a snapshot at X, and the state that a member applied, equal a replay of 0..X"

    def __init__(self) -> None:
        self._applied: dict[tuple[int, int], int] = {}
        self._snapshots: set[tuple[int, int, int]] = set()

    def check(self, cluster: Cluster, touched: Sequence[Member]) -> None:
        for member in touched:
            if member.raft is None:
                continue
            key = (member.id, member.incarnation)
            if member.applied_offset != self._applied.get(key, 0):
                self._applied[key] = member.applied_offset
                self._check_state(member, cluster.history)
            newest = member.raft.log.latest_snapshot
            if newest is not None and (member.id, *newest) not in self._snapshots:
                self._snapshots.add((member.id, *newest))
                self._check_snapshot(member, cluster.history)

    def _check_state(self, member: Member, history: CommittedHistory) -> None:
        replayed = history.ending_at(member.applied_offset)
        if replayed is None or replayed.state != member.state:
            raise self.broken(f"{member.id} has applied {member.state} at {member.applied_offset}, not {replayed}")

    def _check_snapshot(self, member: Member, history: CommittedHistory) -> None:
        assert member.raft is not None
        newest = member.raft.log.latest_snapshot
        assert newest is not None
        if newest.end_offset == 0:
            return  # the one of formatting, which only says who votes
        replayed = history.ending_at(newest.end_offset)
        reader = member.raft.log.open_snapshot(newest)
        values = list(reader.values())
        voters = reader.head.voters
        reader.close()
        if replayed is None or values != snapshot_values(replayed.state) or newest.epoch != replayed.batch.epoch:
            raise self.broken(f"{member.id} has the snapshot {newest} with {values}, not {replayed}")
        if voters is not None and replayed.voters is not None and voters.ids != replayed.voters:
            raise self.broken(
                f"the snapshot {newest} of {member.id} names the voters {voters.ids}, not {replayed.voters}"
            )


def holds(member: Member, committed: list[Batch]) -> bool:
    """Whether all of it would survive a power cut at this member."""
    durable = member.durable_batches()
    start = max(durable[0].base_offset if durable else 0, 0)
    below = member.durable_snapshot_end()
    own = set(durable)
    return all(each.last_offset < below or (each.base_offset >= start and each in own) for each in committed)


def all_invariants() -> list[Invariant]:
    """In the order in which the first broken one tells most. `CommittedNeverChanges` writes the history others read."""
    return [
        SentAfterStored(),
        OneVotePerEpoch(),
        OneLeaderPerEpoch(),
        HighWatermarkMonotonic(),
        NoTruncationBelowHighWatermark(),
        CommittedNeverChanges(),
        MajorityHoldsCommitted(),
        LeaderHoldsCommitted(),
        SnapshotIsReplay(),
    ]
