"""What the checks of a simulation call broken, and what they do not: those that no unit of the product can break."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.metadata.image import (
    NO_TOPICS_BY_ID,
    ClusterImage,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from tidelog.quorum.raft import Raft
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.metadata import UncleanExclusion, is_unclean
from tidelog.sim.checks.quorum import SLACK_S, CutOffLeader, Member

RECOVERING = LeaderRecoveryState.RECOVERING
PATIENCE_S = 3.0


def partition(isr: Sequence[int], leader: int, epochs: tuple[int, int], **fields: Any) -> PartitionRegistration:
    """`epochs`: of the leader, of the partition."""
    return PartitionRegistration(
        replicas=fields.pop("replicas", (1, 2, 3)),
        directories=(),
        isr=tuple(isr),
        leader=leader,
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
        **fields,
    )


def image(registration: PartitionRegistration) -> ClusterImage:
    topic = TopicImage("orders", uuid.UUID(int=1), {0: registration})
    return ClusterImage(topics_by_id=NO_TOPICS_BY_ID.updated({topic.topic_id: topic}))


def test_whoever_is_elected_from_neither_isr_nor_elr_has_to_say_so() -> None:
    check = UncleanExclusion(lambda broker_id: False)
    nobody = partition([], -1, (4, 7), last_known_elr=(2,))
    check.on_metadata(image(nobody), image(partition([2], 2, (5, 8), leader_recovery_state=RECOVERING)))
    with pytest.raises(InvariantBroken, match="broker 2 leads as if it were known to have everything"):
        check.on_metadata(image(nobody), image(partition([2], 2, (5, 8))))


def test_who_joins_and_leads_in_one_change_completes_a_reassignment() -> None:
    """Seed 3 once: taken for an unclean election, after which nothing that was promised before counted."""
    before = partition([4, 3, 2], 2, (2, 17), replicas=(1, 4, 3, 2), adding_replicas=(1,), removing_replicas=(2,))
    after = partition([1, 4, 3], 1, (3, 18), replicas=(1, 4, 3))
    assert not is_unclean(before, after)
    UncleanExclusion(lambda broker_id: False).on_metadata(image(before), image(after))
    # With a batch in between that nobody saw, it may have been one.
    assert is_unclean(before, after._replace(partition_epoch=19))


@dataclass
class Voter:
    """As much of a member of the quorum as is looked at."""

    epoch: int
    is_leader: bool = False
    paused: bool = False

    @property
    def voters(self) -> SimpleNamespace:
        return SimpleNamespace(ids=(1, 2, 3))


def look(check: CutOffLeader, now_s: float, *voters: Voter) -> None:
    members = [Member(number, 1, cast(Raft, voter), lambda: cast(Any, None)) for number, voter in enumerate(voters, 1)]
    check.on_members(members, [number for number, voter in enumerate(voters, 1) if voter.paused], now_s)


def test_a_leader_whose_majority_went_on_has_to_resign() -> None:
    check = CutOffLeader(PATIENCE_S)
    old = Voter(5, is_leader=True)
    look(check, 0.0, old, Voter(5), Voter(6, is_leader=True))
    look(check, 10.0, old, Voter(6), Voter(6, is_leader=True))
    look(check, 10.0 + PATIENCE_S + SLACK_S, old, Voter(6), Voter(6, is_leader=True))
    with pytest.raises(InvariantBroken, match=r"node 1 still leads in epoch 5, 5\.1 s after a majority"):
        look(check, 10.1 + PATIENCE_S + SLACK_S, old, Voter(6), Voter(6, is_leader=True))


def test_a_leader_that_stands_still_is_given_its_time_when_it_goes_on() -> None:
    check = CutOffLeader(PATIENCE_S)
    old, others = Voter(5, is_leader=True), (Voter(6), Voter(6, is_leader=True))
    look(check, 0.0, old, *others)
    old.paused = True
    look(check, 4.0, old, *others)
    old.paused = False
    look(check, 20.0, old, *others)
    look(check, 22.0, old, *others)
