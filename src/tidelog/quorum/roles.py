"""What a member of the quorum is at a moment, and which change of role is legal (Q1).

    Unattached   knows the epoch and no leader of it; may have voted in it
    Prospective  asks whether an election could be won, in its old epoch (pre-vote, KIP-996)
    Candidate    has voted for itself in its epoch
    Leader       has the votes of a majority in its epoch
    Follower     knows the leader of its epoch and fetches from it
    Resigned     was the leader of its epoch and gave it up, or started again

    from         to           epoch   when
    Unattached   Unattached   >=      a newer epoch is seen, or a vote is given
    Unattached   Prospective  same    nobody was elected in time
    Unattached   Follower     >=      a leader is found
    Prospective  Unattached   >=      a newer epoch is seen; a vote is given; the pre-vote is lost, no leader known
    Prospective  Candidate    newer   a majority would vote for it
    Prospective  Follower     >=      a leader is found; the pre-vote is lost and the leader known
    Candidate    Unattached   newer   a newer epoch is seen
    Candidate    Prospective  same    the election is lost, or came to nothing
    Candidate    Follower     >=      a leader is found
    Candidate    Leader       same    a majority voted for it
    Leader       Unattached   newer   a newer epoch is seen
    Leader       Follower     newer   a newer leader is found
    Leader       Resigned     same    it shuts down, no majority fetches, or it is no voter any more
    Follower     Unattached   newer   a newer epoch is seen
    Follower     Prospective  same    nothing was fetched in time, the leader refuses connections or resigned
    Follower     Follower     newer   a newer leader is found
    Resigned     Prospective  same    its wait is over, and it may still be elected
    Resigned     Unattached   newer   a newer epoch is seen, or its wait is over and it is no voter
    Resigned     Follower     newer   a newer leader is found

An epoch never goes back. A member that is not among the voters is an observer (Q7): Unattached or Follower, and never
on its way to an election. Only one whose removal is not known to be committed still takes part, without a vote of its
own.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Final

from tidelog.quorum.progress import ReplicaProgress
from tidelog.quorum.snapshot_download import SnapshotDownload
from tidelog.quorum.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Unattached:
    """`to_ask`: a voter that has just started asks each of the others once for the leader."""

    epoch: int
    election_deadline_s: float = inf
    to_ask: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Election:
    """`granted` and `rejected` hold the ids of those that answered, its own among the first."""

    epoch: int
    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    election_deadline_s: float = inf
    # Lost: nobody else is asked, and the deadline is when the next try begins.
    backing_off: bool = False

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Those who have not refused are no majority."""
        return len(self.voters.ids) - len(self.rejected) < self.voters.majority

    @property
    def unanswered(self) -> list[int]:
        return [each for each in self.voters.ids if each not in self.granted and each not in self.rejected]

    def on_answer(self, voter_id: int, *, granted: bool) -> None:
        """The first answer stands."""
        if voter_id in self.unanswered:
            (self.granted if granted else self.rejected).add(voter_id)


class Prospective(_Election):
    pass


class Candidate(_Election):
    pass


@dataclass(slots=True)
class Leader:
    """Counts what each voter holds *durably*; what a majority holds is committed (Q4).

    Invariant: `high_watermark` never goes back, and is -1 or beyond `epoch_start_offset`: records of older epochs are
    only committed together with the first one of this epoch.
    """

    epoch: int
    epoch_start_offset: int
    voters: VoterSet
    since_s: float = 0.0
    replicas: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    high_watermark: int = -1
    # Voters that have been told of the epoch, and when each is told again unless it fetches.
    acknowledged: set[int] = field(default_factory=set)
    begin_epoch_sent_s: dict[int, float] = field(default_factory=dict)
    _of_voters: tuple[VoterSet, list[ReplicaProgress]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def progress(self, key: ReplicaKey) -> ReplicaProgress:
        """Of a voter under the key of the voter set (static voters have no directory id), of others under their own."""
        if self.voters.is_voter(key):
            key = self.voters.voters[key.id].key
        return self._progress_of(key)

    def voter_progress(self) -> list[ReplicaProgress]:
        # Asked several times a turn; replicas that were once counted stay.
        known = self._of_voters
        if known is None or known[0] is not self.voters:
            each = [self._progress_of(voter.key) for voter in self.voters.voters.values()]
            known = self._of_voters = (self.voters, each)
        return known[1]

    def _progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        found = self.replicas.get(key)
        if found is None:
            found = self.replicas[key] = ReplicaProgress(key, last_fetch_s=self.since_s)
        return found

    def on_durable(self, key: ReplicaKey, end_offset: int) -> bool:
        """A replica holds everything below `end_offset` on stable storage; whether the high watermark moved."""
        progress = self.progress(key)
        # Never less: what a replica once held in this epoch it holds for good; an older report came late.
        progress.end_offset = max(end_offset, progress.end_offset)
        return self.advance()

    def advance(self) -> bool:
        """Counts anew, also after the voters changed; whether the high watermark moved."""
        held = sorted((each.end_offset for each in self.voter_progress()), reverse=True)
        by_majority = held[self.voters.majority - 1]
        if by_majority <= self.epoch_start_offset or by_majority <= self.high_watermark:
            return False
        self.high_watermark = by_majority
        return True

    def last_majority_s(self, own: ReplicaKey) -> float:
        """When a majority last fetched, this leader counted if it votes; infinity if it is the majority."""
        others = [each.last_fetch_s for each in self.voter_progress() if each.key.id != own.id]
        needed = self.voters.majority - (1 if self.voters.is_voter(own) else 0)
        return inf if needed == 0 else sorted(others, reverse=True)[needed - 1]


@dataclass(slots=True)
class Follower:
    """`has_fetched`: the leader answered in this epoch and nothing since speaks against it, so no pre-vote is given."""

    epoch: int
    leader_id: int
    fetch_deadline_s: float = inf
    has_fetched: bool = False
    # What the leader said is committed; it counts here as far as this member holds it durably.
    leader_high_watermark: int = -1
    download: SnapshotDownload | None = None
    # It told the leader where it is reached, as far as the leader's voters are wrong about that.
    endpoints_told: bool = False


@dataclass(slots=True)
class Resigned:
    """Tells the others that the epoch is over (`unacknowledged` are left), the best successors first."""

    epoch: int
    deadline_s: float
    successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: set[int] = field(default_factory=set)


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned


class Epoch(Enum):
    """What a change of role does to the epoch."""

    SAME = auto()
    NEWER = auto()
    SAME_OR_NEWER = auto()


LEGAL: Final[dict[tuple[type[Role], type[Role]], Epoch]] = {
    (Unattached, Unattached): Epoch.SAME_OR_NEWER,
    (Unattached, Prospective): Epoch.SAME,
    (Unattached, Follower): Epoch.SAME_OR_NEWER,
    (Prospective, Unattached): Epoch.SAME_OR_NEWER,
    (Prospective, Candidate): Epoch.NEWER,
    (Prospective, Follower): Epoch.SAME_OR_NEWER,
    (Candidate, Unattached): Epoch.NEWER,
    (Candidate, Prospective): Epoch.SAME,
    (Candidate, Follower): Epoch.SAME_OR_NEWER,
    (Candidate, Leader): Epoch.SAME,
    (Leader, Unattached): Epoch.NEWER,
    (Leader, Follower): Epoch.NEWER,
    (Leader, Resigned): Epoch.SAME,
    (Follower, Unattached): Epoch.NEWER,
    (Follower, Prospective): Epoch.SAME,
    (Follower, Follower): Epoch.NEWER,
    (Resigned, Prospective): Epoch.SAME,
    (Resigned, Unattached): Epoch.NEWER,
    (Resigned, Follower): Epoch.NEWER,
}


def check_transition(before: Role, after: Role) -> None:
    """Every change of role passes here."""
    rule = LEGAL.get((type(before), type(after)))
    assert rule is not None, f"{before} may not become {after}"
    right = {
        Epoch.SAME: after.epoch == before.epoch,
        Epoch.NEWER: after.epoch > before.epoch,
        Epoch.SAME_OR_NEWER: after.epoch >= before.epoch,
    }[rule]
    assert right, f"{before} to {after}: epoch"
