"""What the checks of the quorum call broken, and what they do not: those that no unit of the product can break."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.sim.watched import World, watched

from tidelog.metadata.image import EMPTY_IMAGE, Provenance
from tidelog.quorum.raft import Raft
from tidelog.sim.checks.finding import _disk_of
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.quorum import SLACK_S, CutOffLeader, Member, Quorum

PATIENCE_S = 3.0


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


def vote(epoch: int, voted: int) -> bytes:
    return json.dumps({"leaderEpoch": epoch, "votedId": voted}).encode()


def test_a_vote_is_given_once_in_an_epoch() -> None:
    check = Quorum()
    for stored in (vote(3, -1), vote(3, 2), vote(3, 2), vote(4, 1)):
        check.on_vote_stored(1, stored)
    check.on_vote_stored(2, vote(4, 2))
    with pytest.raises(InvariantBroken, match="node 1 voted for 1 and then for 3 in epoch 4"):
        check.on_vote_stored(1, vote(4, 3))


def test_metadata_at_an_offset_is_the_same_on_every_node() -> None:
    check = Quorum()
    image = replace(EMPTY_IMAGE, provenance=Provenance(7, 1, 0), next_producer_id=1000)
    check.on_image(1, image)
    check.on_image(2, replace(image))
    with pytest.raises(InvariantBroken, match="node 3 has metadata at 7 that differs from an earlier observation"):
        check.on_image(3, replace(image, next_producer_id=2000))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def members(world: World) -> list[Member]:
    found = []
    for node_id, node in world.cluster.nodes.items():
        control = world.cluster.node(node_id).control
        assert control is not None
        found.append(Member(node_id, node.machine.starts, control.raft, _disk_of(node)))
    return found


class Lying:
    """A member of the quorum with something else than it has."""

    def __init__(self, raft: Raft, **other: Any) -> None:
        self._raft = raft
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return self._other[name] if name in self._other else getattr(self._raft, name)


def lies(member: Member, **other: Any) -> Member:
    return member._replace(raft=cast(Raft, Lying(member.raft, **other)))


def test_an_epoch_has_one_leader(world: World) -> None:
    there = members(world)
    Quorum().on_members(there)
    with pytest.raises(InvariantBroken, match=r"nodes 1 and 2 both lead in epoch \d"):
        Quorum().on_members([lies(member, is_leader=True) for member in there])


def test_a_high_watermark_never_goes_back(world: World) -> None:
    check, there = Quorum(), members(world)
    check.on_members(there)
    with pytest.raises(InvariantBroken, match=r"the high watermark of node 1 went back from \d+ to 1"):
        check.on_members([lies(there[0], high_watermark=1), *there[1:]])


def test_nothing_is_cut_below_the_high_watermark(world: World) -> None:
    check, there = Quorum(), members(world)
    beyond = there[0].raft.log.log_end_offset + 1
    with pytest.raises(InvariantBroken, match="the log of node 1 ends below its high watermark"):
        check.on_members([lies(there[0], high_watermark=beyond), *there[1:]])


def test_what_is_committed_is_durable_at_a_majority(world: World) -> None:
    there = members(world)
    # Two of three are a majority, one is not.
    Quorum().on_members(there[:2])
    with pytest.raises(InvariantBroken, match=r"is committed, but the durable ends of the voters \[1, 2, 3\]"):
        Quorum().on_members(there[:1])


def test_what_is_committed_is_the_same_on_every_member(world: World) -> None:
    check, there = Quorum(), members(world)
    check.on_members(there[:2])
    check._committed[0] = check._committed[0]._replace(crc=0)
    with pytest.raises(
        InvariantBroken, match=r"node 3 has 0\.\..* in the metadata log, but the committed batch is 0\.\..*crc 00000000"
    ):
        check.on_members(there)
