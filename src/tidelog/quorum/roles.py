"""What a member of the quorum is at a moment, and which change of role is legal (Q1).

    Unattached   knows the epoch and no leader of it
    Candidate    has voted for itself in its epoch
    Leader       has the votes of a majority in its epoch

    from         to           when
    Unattached   Unattached   a newer epoch is seen
    Unattached   Candidate    it starts an election, in a newer epoch
    Candidate    Candidate    the election came to nothing, in a newer epoch
    Candidate    Leader       a majority voted for it, same epoch
    Candidate    Unattached   a newer epoch is seen
    Leader       Unattached   a newer epoch is seen

An epoch never goes back.
"""

from dataclasses import dataclass, field
from typing import Final

from tidelog.quorum.voters import VoterSet


@dataclass(slots=True)
class Unattached:
    epoch: int


@dataclass(slots=True)
class Candidate:
    """`granted` holds the ids that voted for this candidate, its own among them."""

    epoch: int
    voters: VoterSet
    granted: set[int] = field(default_factory=set)

    @property
    def is_elected(self) -> bool:
        return len(self.granted) >= self.voters.majority


@dataclass(slots=True)
class Leader:
    """Counts what each voter holds *durably*; what a majority holds is committed (Q4).

    Invariant: `high_watermark` never goes back, and is -1 or beyond `epoch_start_offset`: records of older epochs are
    only committed together with the first one of this epoch.
    """

    epoch: int
    epoch_start_offset: int
    voters: VoterSet
    end_offsets: dict[int, int] = field(default_factory=dict)
    high_watermark: int = -1

    def on_durable(self, voter_id: int, end_offset: int) -> bool:
        """A voter holds everything below `end_offset` on stable storage; whether the high watermark moved."""
        assert voter_id in self.voters.voters, (voter_id, self.voters)
        self.end_offsets[voter_id] = max(end_offset, self.end_offsets.get(voter_id, 0))
        held = sorted((self.end_offsets.get(each, 0) for each in self.voters.ids), reverse=True)
        by_majority = held[self.voters.majority - 1]
        if by_majority <= self.epoch_start_offset or by_majority <= self.high_watermark:
            return False
        self.high_watermark = by_majority
        return True


Role = Unattached | Candidate | Leader

# (from, to) -> whether the epoch stays the same; if not, it grows.
LEGAL: Final[dict[tuple[type[Role], type[Role]], bool]] = {
    (Unattached, Unattached): False,
    (Unattached, Candidate): False,
    (Candidate, Candidate): False,
    (Candidate, Leader): True,
    (Candidate, Unattached): False,
    (Leader, Unattached): False,
}


def check_transition(before: Role, after: Role) -> None:
    """Every change of role passes here."""
    same_epoch = LEGAL.get((type(before), type(after)))
    assert same_epoch is not None, f"{before} may not become {after}"
    assert after.epoch == before.epoch if same_epoch else after.epoch > before.epoch, f"{before} to {after}: epoch"
