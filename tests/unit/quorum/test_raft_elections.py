"""Who becomes leader: votes and pre-votes as tables, then several members in one world."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from tests.unit.quorum.raft_kit import CONFIG, DIR, World, directory_id, static

from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.quorum.raft import Raft
from tidelog.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import begin_quorum_epoch as begin
from tidelog.wire.messages import end_quorum_epoch as end
from tidelog.wire.messages import vote

STATE = f"{DIR}/__cluster_metadata-0/quorum-state"


def state(world: World, node: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(world.disks[node].read_bytes(STATE))
    return content


T = TypeVar("T")


def altered(message: T, **changes: Any) -> T:
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def vote_request(
    epoch: int, candidate: int = 2, last_epoch: int = 0, end_offset: int = 0, *, pre: bool = False, **changes: Any
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory_id(candidate),
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=pre,
    )
    for name in ("voter_directory_id", "partition_index"):
        if name in changes:
            altered(partition, **{name: changes.pop(name)})
    topic = changes.pop("topic", METADATA_TOPIC)
    request = vote.VoteRequest(
        cluster_id="cluster", voter_id=1, topics=[vote.TopicData(topic_name=topic, partitions=[partition])]
    )
    return altered(request, **changes)


def ask(raft: Raft, request: vote.VoteRequest, now_s: float = 1.0) -> tuple[ErrorCode, bool, int, int]:
    response = raft.receive(2, request, now_s)
    if response.error_code:
        return ErrorCode(response.error_code), False, -1, -1
    partition = response.topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.vote_granted, partition.leader_id, partition.leader_epoch


def begin_request(leader: int, epoch: int, **changes: Any) -> begin.BeginQuorumEpochRequest:
    partition = begin.PartitionData(leader_id=leader, leader_epoch=epoch)
    request = begin.BeginQuorumEpochRequest(
        cluster_id="cluster",
        voter_id=1,
        topics=[begin.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[begin.LeaderEndpoint(name="CONTROLLER", host="there", port=1234)],
    )
    return altered(request, **changes)


def end_request(leader: int, epoch: int, successors: list[int]) -> end.EndQuorumEpochRequest:
    candidates = [end.ReplicaInfo(candidate_id=node, candidate_directory_id=directory_id(node)) for node in successors]
    partition = end.PartitionData(leader_id=leader, leader_epoch=epoch, preferred_candidates=candidates)
    return end.EndQuorumEpochRequest(
        cluster_id="cluster", topics=[end.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


def alone(role: str) -> tuple[World, Raft]:
    """Member 1 of three, in epoch 5 and with an empty log; nobody else is there."""
    world = World([1], static([1, 2, 3]))
    raft = world.rafts[1]
    if role == "unattached":
        ask(raft, vote_request(5, last_epoch=6))
        ask(raft, vote_request(5, voter_id=7))
    elif role == "voted for 3":
        assert ask(raft, vote_request(5, candidate=3))[1]
    elif role.startswith("follower"):
        raft.receive(2, begin_request(2, 5), 1.0)
        if role == "follower that fetched":
            assert isinstance(raft.role, Follower)
            raft.role.has_fetched = True
    elif role == "prospective":
        raft.receive(2, begin_request(2, 5), 1.0)
        raft.poll(3.5)
    elif role == "candidate":
        ask(raft, vote_request(4, voter_id=7))
        raft.poll(3.5)
        assert isinstance(raft.role, Prospective)
        raft.role.granted.add(2)
        raft.poll(3.5)
    elif role == "resigned":
        (world.disks[1]).write_atomic(
            STATE, b'{"leaderId":1,"leaderEpoch":5,"votedId":1,"data_version":0,"currentVoters":[]}'
        )
        raft = world.start(1)
    assert raft.epoch == 5, raft.role
    kinds = {
        "unattached": Unattached,
        "voted for 3": Unattached,
        "follower": Follower,
        "follower that fetched": Follower,
        "prospective": Prospective,
        "candidate": Candidate,
        "resigned": Resigned,
    }
    assert isinstance(raft.role, kinds[role])
    return world, raft


class TestVote:
    @pytest.mark.rule("Q1")
    @pytest.mark.rule("Q2")
    @pytest.mark.parametrize(
        ("role", "pre", "vote"),
        [
            ("unattached", True, True),
            ("voted for 3", True, False),
            ("follower", True, False),
            ("follower that fetched", False, False),
            ("prospective", True, False),
            ("candidate", True, False),
            ("resigned", True, False),
        ],
    )
    def test_in_its_own_epoch(self, role: str, pre: bool, vote: bool) -> None:
        _, raft = alone(role)
        before = raft.role
        assert ask(raft, vote_request(5, pre=True))[:2] == (ErrorCode.NONE, pre)
        assert raft.role is before, "a pre-vote changes nothing"
        assert ask(raft, vote_request(5))[:2] == (ErrorCode.NONE, vote)
        assert ask(raft, vote_request(5))[1] is vote, "asked again, it says the same"

    @pytest.mark.rule("Q1")
    @pytest.mark.parametrize(
        "role", ["unattached", "voted for 3", "follower", "follower that fetched", "candidate", "resigned"]
    )
    def test_a_newer_epoch_frees_the_vote_and_it_is_on_disk_before_the_answer(self, role: str) -> None:
        world, raft = alone(role)
        assert ask(raft, vote_request(6)) == (ErrorCode.NONE, True, -1, 6)
        assert isinstance(raft.role, Unattached)
        assert state(world, 1)["votedId"] == 2 and state(world, 1)["leaderEpoch"] == 6
        assert ask(raft, vote_request(6, candidate=3))[:2] == (ErrorCode.NONE, False), "one vote in an epoch"
        raft = world.start(1)
        assert ask(raft, vote_request(6, candidate=3))[:2] == (ErrorCode.NONE, False), "over a restart too"
        assert ask(raft, vote_request(6))[:2] == (ErrorCode.NONE, True)

    @pytest.mark.rule("Q2")
    @pytest.mark.parametrize("pre", [True, False])
    @pytest.mark.parametrize(
        ("last_epoch", "end_offset", "granted"),
        [(1, 3, True), (1, 4, True), (1, 2, False), (0, 99, False), (2, 0, True)],
    )
    def test_only_a_log_at_least_as_complete_is_elected(
        self, last_epoch: int, end_offset: int, granted: bool, pre: bool
    ) -> None:
        """The log of 1 ends at 3, in epoch 1."""
        world = World([1], static([1]))
        world.settle()
        world.rafts[1].append([b"a", b"b"], 1)
        world.settle()
        world.voters = static([1, 2, 3])
        raft = world.start(1)
        request = vote_request(6, last_epoch=last_epoch, end_offset=end_offset, pre=pre)
        assert ask(raft, request)[:2] == (ErrorCode.NONE, granted)

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (vote_request(6, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (vote_request(6, topics=[]), ErrorCode.INVALID_REQUEST),
            (vote_request(6, topic="orders"), ErrorCode.INVALID_REQUEST),
            (vote_request(6, partition_index=1), ErrorCode.INVALID_REQUEST),
            (vote_request(6, last_epoch=6), ErrorCode.INVALID_REQUEST),
            (vote_request(6, last_epoch=7, pre=True), ErrorCode.INVALID_REQUEST),
            (vote_request(6, last_epoch=-1), ErrorCode.INVALID_REQUEST),
            (vote_request(6, end_offset=-1), ErrorCode.INVALID_REQUEST),
            (vote_request(6, candidate=-1), ErrorCode.INVALID_REQUEST),
            (vote_request(4), ErrorCode.FENCED_LEADER_EPOCH),
            (vote_request(4, pre=True), ErrorCode.FENCED_LEADER_EPOCH),
            (vote_request(6, voter_id=2), ErrorCode.INVALID_VOTER_KEY),
            (vote_request(6, voter_directory_id=directory_id(3)), ErrorCode.INVALID_VOTER_KEY),
            (vote_request(6, voter_directory_id=directory_id(1)), ErrorCode.NONE),
            (vote_request(6, voter_directory_id=ZERO_UUID, voter_id=-1, cluster_id=None), ErrorCode.NONE),
        ],
    )
    def test_what_is_refused(self, request_: vote.VoteRequest, error: ErrorCode) -> None:
        _, raft = alone("unattached")
        assert ask(raft, request_)[:2] == (error, error is ErrorCode.NONE)


class TestBeginAndEndQuorumEpoch:
    @pytest.mark.rule("Q3")
    @pytest.mark.parametrize(
        ("role", "leader", "epoch", "error", "follows"),
        [
            ("unattached", 2, 5, ErrorCode.NONE, (2, 5)),
            ("unattached", 2, 7, ErrorCode.NONE, (2, 7)),
            ("unattached", 2, 4, ErrorCode.FENCED_LEADER_EPOCH, None),
            ("unattached", -1, 5, ErrorCode.INVALID_REQUEST, None),
            ("unattached", 1, 5, ErrorCode.INVALID_REQUEST, None),
            ("voted for 3", 2, 5, ErrorCode.NONE, (2, 5)),
            ("candidate", 2, 5, ErrorCode.NONE, (2, 5)),
            ("prospective", 2, 5, ErrorCode.NONE, (2, 5)),
            ("follower", 3, 5, ErrorCode.INVALID_REQUEST, (2, 5)),
            ("follower", 3, 6, ErrorCode.NONE, (3, 6)),
            ("resigned", 2, 5, ErrorCode.INVALID_REQUEST, None),
            ("resigned", 2, 6, ErrorCode.NONE, (2, 6)),
        ],
    )
    def test_a_leader_announces_itself(
        self, role: str, leader: int, epoch: int, error: ErrorCode, follows: tuple[int, int] | None
    ) -> None:
        world, raft = alone(role)
        response = raft.receive(leader, begin_request(leader, epoch), 4.0)
        assert response.topics[0].partitions[0].error_code == error
        assert ((raft.leader_id, raft.epoch) if isinstance(raft.role, Follower) else None) == follows
        if follows is not None:
            assert (state(world, 1)["leaderId"], state(world, 1)["leaderEpoch"]) == follows
            assert raft.endpoint(follows[0]) is not None

    def test_what_else_is_refused(self) -> None:
        _, raft = alone("unattached")
        assert raft.receive(2, begin_request(2, 5, cluster_id="x"), 1.0).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert raft.receive(2, begin_request(2, 5, topics=[]), 1.0).error_code == ErrorCode.INVALID_REQUEST
        wrong = raft.receive(2, begin_request(2, 5, voter_id=3), 1.0)
        assert wrong.topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
        foreign = altered(end_request(2, 5, []), cluster_id="x")
        assert raft.receive(2, foreign, 1.0).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (
            raft.receive(2, altered(foreign, cluster_id=None, topics=[]), 1.0).error_code == ErrorCode.INVALID_REQUEST
        )

    @pytest.mark.rule("Q3")
    @pytest.mark.parametrize(
        ("successors", "waits_s"), [([1, 3], 0.0), ([3, 1], 0.5), ([3, 4, 1], 0.5), ([3, 1, 4], 0.25), ([], 0.0)]
    )
    def test_a_leader_resigns(self, successors: list[int], waits_s: float) -> None:
        _, raft = alone("follower that fetched")
        response = raft.receive(2, end_request(2, 5, successors), 1.5)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        if waits_s:
            raft.poll(1.5 + waits_s - 0.001)
            assert isinstance(raft.role, Follower)
            assert ask(raft, vote_request(5, pre=True))[1], "it stands in nobody's way meanwhile"
        raft.poll(1.5 + waits_s)
        assert isinstance(raft.role, Prospective)

    def test_an_old_resignation_changes_nothing(self) -> None:
        _, raft = alone("follower that fetched")
        response = raft.receive(2, end_request(2, 4, [1]), 1.5)
        assert response.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        raft.poll(1.5)
        assert isinstance(raft.role, Follower)


class TestElections:
    @pytest.mark.rule("Q5")
    @pytest.mark.parametrize("seed", range(8))
    def test_voters_that_start_find_a_leader_at_once(self, seed: int) -> None:
        world = World([1, 2, 3], static([1, 2, 3]), seed=seed)
        world.run(0.5)
        assert len(world.leaders) == 1
        assert {raft.leader_id for raft in world.rafts.values()} == set(world.leaders)
        assert all(isinstance(raft.role, Leader | Follower) for raft in world.rafts.values())

    @pytest.mark.rule("Q2")
    def test_one_of_three_never_gets_beyond_asking(self) -> None:
        world = World([1], static([1, 2, 3]))
        world.run(60.0)
        assert world.rafts[1].epoch == 0
        assert all(request.topics[0].partitions[0].pre_vote for _, _, request in world.sent if _is_vote(request))

    @pytest.mark.rule("Q1")
    def test_a_vote_that_is_not_on_disk_is_not_given(self) -> None:
        world, raft = alone("unattached")
        world.disks[1].fault = lambda operation, path: 5 if operation == "write_atomic" else None
        with pytest.raises(OSError, match="injected"):
            ask(raft, vote_request(6))
        assert raft.epoch == 5

    @pytest.mark.rule("Q5")
    @pytest.mark.parametrize("seed", range(5))
    def test_the_voters_of_a_new_quorum_ask_in_turn(self, seed: int) -> None:
        world = World([1, 2, 3], static([1, 2, 3]), seed=seed)
        waits = []
        for raft in world.rafts.values():
            assert isinstance(raft.role, Unattached)
            waits.append(raft.role.election_deadline_s - world.now_s)
        part_s = CONFIG.start_wait_ms / 3 / 1000
        for turn, wait_s in enumerate(waits):
            assert turn * part_s <= wait_s <= (turn + 0.5) * part_s
        world.run(0.1)
        assert world.leaders == [1] and world.leader.epoch == 1

    @pytest.mark.rule("Q5")
    def test_the_wait_before_an_election_is_one_to_two_timeouts_and_backing_off_at_most_its_maximum(self) -> None:
        world = World([1], static([1, 2, 3]), config=replace(CONFIG, start_wait_ms=0))
        begun: list[tuple[float, object]] = []
        while world.now_s < 30:
            next_s = world.settle()
            role = world.rafts[1].role
            if isinstance(role, Prospective) and (not begun or begun[-1][1] is not role):
                assert 1.0 <= role.election_deadline_s - world.now_s <= 2.0
                begun.append((world.now_s, role))
            world.now_s = next_s
        gaps = [later[0] - earlier[0] for earlier, later in pairwise(begun)]
        assert len(gaps) > 9 and all(1.0 <= gap <= 3.0 for gap in gaps), "a timeout, and a backoff of 1 s at most"


def _is_vote(request: object) -> bool:
    return isinstance(request, vote.VoteRequest)
