"""Voters come and go, one at a time; and what DescribeQuorum says of them."""

from typing import Any

import pytest
from tests.unit.quorum.raft_kit import LISTENER, World, directory_id, dynamic, endpoints, static

from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.quorum.raft import Parked, Raft
from tidelog.quorum.roles import Follower, Resigned, Unattached
from tidelog.quorum.voter_history import VoterHistory, VotersAt
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import add_raft_voter as add
from tidelog.wire.messages import describe_quorum as describe
from tidelog.wire.messages import remove_raft_voter as remove
from tidelog.wire.messages import update_raft_voter as update


def add_request(node: int, **changes: Any) -> add.AddRaftVoterRequest:
    listeners = [add.Listener(name=name, host=host, port=port) for name, host, port in endpoints(node)]
    request = add.AddRaftVoterRequest(
        cluster_id="cluster",
        timeout_ms=1000,
        voter_id=node,
        voter_directory_id=directory_id(node),
        listeners=listeners,
        ack_when_committed=True,
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def remove_request(node: int, **changes: Any) -> remove.RemoveRaftVoterRequest:
    request = remove.RemoveRaftVoterRequest(cluster_id="cluster", voter_id=node, voter_directory_id=directory_id(node))
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def update_request(node: int, epoch: int, port: int, **changes: Any) -> update.UpdateRaftVoterRequest:
    request = update.UpdateRaftVoterRequest(
        cluster_id="cluster",
        current_leader_epoch=epoch,
        voter_id=node,
        voter_directory_id=directory_id(node),
        listeners=[update.Listener(name=LISTENER, host="moved", port=port)],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def world_of(voters: list[int], others: list[int], seed: int = 7) -> tuple[World, Raft]:
    world = World([*voters, *others], dynamic(voters), seed=seed)
    leader = world.run_until_leader()
    world.run(2.0)
    return world, leader


def outcome(world: World, raft: Raft, request: Any, *, run_s: float = 2.0) -> ErrorCode:
    """What the requester hears in the end."""
    answer = raft.receive(-1, request, world.now_s)
    if isinstance(answer, Parked):
        world.run(0.0)
        found = world.client_answers.pop(answer, None)
        if found is None:
            world.run(run_s)
            found = world.client_answers.pop(answer)
        answer = found
    return ErrorCode(answer.error_code)


class TestChanges:
    @pytest.mark.rule("Q8")
    @pytest.mark.parametrize("seed", range(3))
    def test_a_voter_is_added_and_removed(self, seed: int) -> None:
        world, leader = world_of([1, 2, 3], [4], seed)
        assert outcome(world, leader, add_request(4)) is ErrorCode.NONE
        world.run(1.0)
        for raft in world.rafts.values():
            assert raft.voters == dynamic([1, 2, 3, 4]) and raft.is_voter
        gone = next(node for node in (1, 2, 3) if node != leader.key.id)
        assert outcome(world, leader, remove_request(gone)) is ErrorCode.NONE
        world.run(1.0)
        assert {raft.voters.ids for raft in world.rafts.values()} == {tuple(sorted({1, 2, 3, 4} - {gone}))}
        assert not world.rafts[gone].is_voter and isinstance(world.rafts[gone].role, Follower)
        # the new set carries on, over a failover and over restarts
        world.kill(leader.key.id)
        new = world.run_until_leader()
        assert new.key.id != gone
        again = world.start(leader.key.id)
        assert again.voters == new.voters

    @pytest.mark.rule("Q8")
    def test_a_leader_removes_itself_and_hands_over_when_that_is_committed(self) -> None:
        world, leader = world_of([1, 2, 3], [])
        node = leader.key.id
        assert outcome(world, leader, remove_request(node)) is ErrorCode.NONE
        world.run(5.0)
        assert world.leader.key.id != node and node not in world.leader.voters.ids
        assert isinstance(leader.role, Follower | Unattached) and not leader.is_voter
        assert world.leader.high_watermark == leader.high_watermark, "it goes on as an observer"

    @pytest.mark.rule("Q8")
    def test_one_change_at_a_time(self) -> None:
        world, leader = world_of([1, 2, 3], [4, 5])
        down = [node for node in (1, 2, 3) if node != leader.key.id]
        for node in down:
            world.kill(node)
        waiting = leader.receive(-1, add_request(4), world.now_s)
        assert isinstance(waiting, Parked) and list(leader.voters.ids) == [1, 2, 3, 4], "in force, not committed"
        assert outcome(world, leader, add_request(5)) is ErrorCode.REQUEST_TIMED_OUT
        world.run(1.1)
        assert world.client_answers.pop(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert outcome(world, leader, remove_request(4)) is ErrorCode.REQUEST_TIMED_OUT, "the record is still open"
        for node in down:
            world.start(node)
        world.run(1.0)
        assert outcome(world, leader, add_request(5)) is ErrorCode.NONE
        assert list(leader.voters.ids) == [1, 2, 3, 4, 5]

    @pytest.mark.rule("Q8")
    def test_a_change_that_was_not_committed_is_undone_with_its_record(self) -> None:
        world, leader = world_of([1, 2, 3], [4])
        old = leader.key.id
        for node in {1, 2, 3, 4} - {old}:
            world.cut.add(frozenset((old, node)))
        waiting = leader.receive(-1, add_request(4, timeout_ms=60_000), world.now_s)
        assert list(leader.voters.ids) == [1, 2, 3, 4]
        world.run(10.0)
        assert world.client_answers.pop(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.heal()
        world.run(5.0)
        assert list(leader.voters.ids) == [1, 2, 3] and leader.high_watermark == world.leader.high_watermark

    @pytest.mark.rule("Q8")
    @pytest.mark.parametrize("crash", [True, False])
    def test_a_leader_that_alone_has_its_removal_is_elected_once_more_to_finish_it(self, crash: bool) -> None:
        """Nobody else could be: its log is the longest, and of two voters both are needed."""
        world, leader = world_of([1, 2], [])
        node = leader.key.id
        world.isolate(node)
        leader.receive(-1, remove_request(node), world.now_s)
        world.settle()
        assert not leader.is_voter
        if crash:
            world.kill(node, power=True)
            world.heal()
            world.start(node)
        else:
            world.run(5.0)
            world.heal()
        world.run(10.0)
        assert world.leader.key.id != node and list(world.leader.voters.ids) == [world.leader.key.id]
        assert not world.rafts[node].is_voter and world.rafts[node].high_watermark == world.leader.high_watermark

    def test_an_answer_before_the_commit_if_asked_for(self) -> None:
        world, leader = world_of([1, 2, 3], [4])
        answer = leader.receive(-1, add_request(4, ack_when_committed=False), world.now_s)
        assert answer.error_code == ErrorCode.NONE and leader.high_watermark < leader.next_offset

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (add_request(4, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (add_request(4, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
            (add_request(4, voter_id=-1), ErrorCode.INVALID_REQUEST),
            (add_request(4, listeners=[]), ErrorCode.INVALID_REQUEST),
            (add_request(2), ErrorCode.DUPLICATE_VOTER),
            (add_request(2, voter_directory_id=directory_id(99)), ErrorCode.DUPLICATE_VOTER),
            (add_request(5), ErrorCode.REQUEST_TIMED_OUT),
            (remove_request(4), ErrorCode.VOTER_NOT_FOUND),
            (remove_request(2, voter_directory_id=directory_id(99)), ErrorCode.VOTER_NOT_FOUND),
            (remove_request(2, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (update_request(2, 0, 1), ErrorCode.FENCED_LEADER_EPOCH),
            (update_request(2, 2, 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
            (update_request(4, 1, 1), ErrorCode.VOTER_NOT_FOUND),
            (update_request(2, 1, 1, listeners=[]), ErrorCode.INVALID_REQUEST),
            (update_request(2, 1, 1), ErrorCode.NONE),
        ],
    )
    def test_what_is_refused(self, request_: Any, error: ErrorCode) -> None:
        world, leader = world_of([1, 2, 3], [4])
        assert outcome(world, leader, request_) is error

    def test_others_refuse_and_so_does_a_leader_with_nothing_committed_and_the_last_voter(self) -> None:
        world, leader = world_of([1, 2, 3], [4])
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        for request in (add_request(4), remove_request(1), update_request(1, 1, 5)):
            assert outcome(world, follower, request) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        alone = World([1], dynamic([1]))
        alone.rafts[1].poll(1.0)
        assert outcome(alone, alone.rafts[1], remove_request(1)) is ErrorCode.REQUEST_TIMED_OUT
        alone.settle()
        assert outcome(alone, alone.rafts[1], remove_request(1)) is ErrorCode.INVALID_REQUEST
        old = World([1], static([1]))
        old.settle()
        assert outcome(old, old.rafts[1], remove_request(1)) is ErrorCode.UNSUPPORTED_VERSION

    def test_a_voter_that_moved_tells_the_leader(self) -> None:
        world, leader = world_of([1, 2, 3], [])
        node = next(each for each in world.rafts if each != leader.key.id)
        world.kill(node)
        world.moved[node] = ((LISTENER, "elsewhere", 4711),)
        world.start(node)
        world.run(3.0)
        for raft in world.rafts.values():
            assert raft.voters.voters[node].endpoints == world.moved[node]
        assert leader.endpoint(node) == ("elsewhere", 4711)
        told = sum(isinstance(request, update.UpdateRaftVoterRequest) for _, _, request in world.sent)
        assert told == 1


class TestDescribeQuorum:
    def request(self, topic: str = METADATA_TOPIC, partition: int = 0) -> describe.DescribeQuorumRequest:
        partitions = [describe.PartitionData(partition_index=partition)]
        return describe.DescribeQuorumRequest(topics=[describe.TopicData(topic_name=topic, partitions=partitions)])

    def test_what_the_leader_knows(self) -> None:
        world, leader = world_of([1, 2, 3], [4])
        leader.append([b"a"], 1)
        world.run(1.0)
        silent = next(node for node in (1, 2, 3) if node != leader.key.id)
        world.isolate(silent)
        leader.append([b"b"], 1)
        world.run(1.0)
        response = leader.receive(-1, self.request(), world.now_s)
        got = response.topics[0].partitions[0]
        assert (got.leader_id, got.leader_epoch, got.high_watermark) == (leader.key.id, 1, leader.next_offset)
        by_id = {each.replica_id: each for each in (*got.current_voters, *got.observers)}
        assert [each.replica_id for each in got.current_voters] == [1, 2, 3]
        assert [each.replica_id for each in got.observers] == [4]
        assert by_id[silent].log_end_offset == leader.next_offset - 1
        assert by_id[4].log_end_offset == leader.next_offset and by_id[4].replica_directory_id == directory_id(4)
        assert by_id[leader.key.id].last_fetch_timestamp == world.now_ms
        assert 900 <= world.now_ms - by_id[silent].last_caught_up_timestamp <= 1600
        assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
            (1, "host1"),
            (2, "host2"),
            (3, "host3"),
        ]

    def test_who_else_is_asked(self) -> None:
        world, leader = world_of([1, 2, 3], [])
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        refused = follower.receive(-1, self.request(), world.now_s).topics[0].partitions[0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for request in (self.request("orders"), self.request(partition=1)):
            assert leader.receive(-1, request, world.now_s).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_voter_that_never_fetched(self) -> None:
        world = World([1, 2], dynamic([1, 2, 3]))
        leader = world.run_until_leader()
        got = leader.receive(-1, self.request(), world.now_s).topics[0].partitions[0].current_voters[2]
        assert (got.log_end_offset, got.last_fetch_timestamp, got.last_caught_up_timestamp) == (-1, -1, -1)


def test_the_history_of_voters() -> None:
    one, two, three = dynamic([1]), dynamic([1, 2]), dynamic([1, 2, 3])
    history = VoterHistory(VotersAt(-1, one))
    history.add(5, two)
    history.add(9, three)
    assert [history.at(end) for end in (0, 5, 6, 9, 10, 99)] == [one, one, two, two, three, three]
    history.truncate_to(9)
    assert history.latest == two and history.latest_offset == 5
    history.add(11, three)
    history.forget_before(6)
    assert history.at(6) == two and history.latest == three
    history.truncate_to(0)
    assert history.latest == two, "what came before is known by no other name"


def test_a_resigned_member_that_is_no_voter_looks_for_the_next_leader() -> None:
    world, leader = world_of([1, 2, 3], [])
    node = leader.key.id
    assert isinstance(leader.receive(-1, remove_request(node), world.now_s), Parked)
    world.settle()
    assert isinstance(leader.role, Resigned | Follower | Unattached)
    world.run(5.0)
    assert leader.leader_id == world.leader.key.id != node
