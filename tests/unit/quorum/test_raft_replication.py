"""How a log comes to be the same everywhere: fetches as tables, then several members in one world."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.quorum.raft_kit import CONFIG, DIR, World, directory_id, dynamic, static

from tidelog.core.ids import METADATA_TOPIC_ID
from tidelog.quorum.errors import NotLeader, QuorumError
from tidelog.quorum.raft import Parked, Raft
from tidelog.quorum.roles import Follower, Leader, Prospective, Resigned, Unattached
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.messages.vote import VoteRequest
from tidelog.wire.records.plain import Record, encode_batch


def fetch_request(epoch: int, offset: int, last_epoch: int, replica: int = 2, **changes: Any) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
        replica_directory_id=directory_id(replica),
        high_watermark=changes.pop("high_watermark", (1 << 63) - 1),
    )
    topic = fetch.FetchTopic(topic_id=changes.pop("topic_id", METADATA_TOPIC_ID), partitions=[partition])
    request = fetch.FetchRequest(
        cluster_id="cluster", replica_state=fetch.ReplicaState(replica_id=replica), max_wait_ms=0, topics=[topic]
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def partition_of(response: Any) -> fetch.PartitionData:
    assert isinstance(response, fetch.FetchResponse) and not response.error_code, response
    found: fetch.PartitionData = response.responses[0].partitions[0]
    return found


def flush(raft: Raft) -> None:
    task = raft.begin_flush()
    task.run()
    raft.on_flushed(task, 1)


def values(raft: Raft, start: int = 0) -> list[bytes]:
    return [value for batch in raft.committed(start) for value in batch.values]


def three(**changes: Any) -> tuple[World, Raft]:
    world = World([1, 2, 3], static([1, 2, 3]), **changes)
    return world, world.run_until_leader()


class TestFetch:
    """At a leader of epoch 1 with a log of 1 record and 2 more: it ends at 3."""

    def leader(self) -> tuple[World, Raft]:
        world, leader = three()
        for other in set(world.rafts) - {leader.key.id}:
            world.kill(other)
        leader.append([b"a", b"b"], 1)
        flush(leader)
        leader.completed_fetches(world.now_s)
        return world, leader

    @pytest.mark.parametrize(
        ("request_", "error"),
        [
            (fetch_request(1, 0, 0, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (fetch_request(1, 0, 0, topics=[]), ErrorCode.INVALID_REQUEST),
            (fetch_request(1, 0, 0, topic_id=directory_id(9)), ErrorCode.INVALID_REQUEST),
            (fetch_request(1, -1, 0), ErrorCode.INVALID_REQUEST),
            (fetch_request(1, 0, -1), ErrorCode.INVALID_REQUEST),
            (fetch_request(1, 0, 2), ErrorCode.INVALID_REQUEST),
            (fetch_request(1, 0, 0, max_wait_ms=-1), ErrorCode.INVALID_REQUEST),
            (fetch_request(0, 0, 0), ErrorCode.FENCED_LEADER_EPOCH),
            (fetch_request(2, 0, 0), ErrorCode.UNKNOWN_LEADER_EPOCH),
            (fetch_request(1, 0, 0), ErrorCode.NONE),
        ],
    )
    def test_errors(self, request_: fetch.FetchRequest, error: ErrorCode) -> None:
        world, leader = self.leader()
        response = leader.receive(2, request_, world.now_s)
        assert (response.error_code or partition_of(response).error_code) == error
        if not response.error_code:
            told = partition_of(response).current_leader
            assert (told.leader_id, told.leader_epoch) == (leader.key.id, 1)

    @pytest.mark.rule("Q3")
    @pytest.mark.parametrize(
        ("offset", "last_epoch", "records_from", "diverging"),
        [(0, 0, 0, None), (1, 1, 1, None), (3, 1, None, None), (4, 1, None, (1, 3)), (2, 0, None, (0, 0))],
    )
    def test_what_a_log_that_ends_there_gets(
        self, offset: int, last_epoch: int, records_from: int | None, diverging: tuple[int, int] | None
    ) -> None:
        world, leader = self.leader()
        got = partition_of(leader.receive(2, fetch_request(1, offset, last_epoch), world.now_s))
        records = bytes(got.records or b"")
        assert (int.from_bytes(records[:8], "big") if records else None) == records_from
        parted = got.diverging_epoch
        assert ((parted.epoch, parted.end_offset) if parted.epoch >= 0 else None) == diverging

    @pytest.mark.rule("Q4")
    def test_only_a_fetch_that_fits_moves_the_high_watermark(self) -> None:
        world, leader = self.leader()
        before = leader.high_watermark
        follower = next(node for node in (1, 2, 3) if node != leader.key.id)
        for offset, last_epoch in [(4, 1), (2, 0)]:
            leader.receive(follower, fetch_request(1, offset, last_epoch, follower), world.now_s)
        leader.receive(9, fetch_request(1, 3, 1, 9), world.now_s)
        leader.receive(9, fetch_request(1, 3, 1, -1), world.now_s)
        assert leader.high_watermark == before, "not of a log that parted, an observer or a stranger"
        got = partition_of(leader.receive(follower, fetch_request(1, 3, 1, follower), world.now_s))
        assert leader.high_watermark == got.high_watermark == 3
        leader.receive(follower, fetch_request(1, 0, 0, follower), world.now_s)
        assert leader.high_watermark == 3, "an old fetch that comes late takes nothing back"

    def test_a_fetch_waits_for_records_the_high_watermark_or_its_time(self) -> None:
        world, leader = self.leader()
        one, two = (node for node in (1, 2, 3) if node != leader.key.id)

        def parked(replica: int, **changes: Any) -> Parked:
            request = fetch_request(1, leader.next_offset, 1, replica, max_wait_ms=500, **changes)
            answer = leader.receive(replica, request, world.now_s)
            assert isinstance(answer, Parked)
            assert leader.completed_fetches(world.now_s) == []
            return answer

        leader.receive(one, fetch_request(1, 3, 1, one), world.now_s)
        waiting = parked(one, high_watermark=3)
        assert leader.poll(world.now_s).poll_at_s <= waiting.deadline_s
        (done,) = leader.completed_fetches(waiting.deadline_s)
        assert done.parked is waiting and not partition_of(done.response).records

        waiting = parked(one, high_watermark=3)
        leader.append([b"c"], 1)
        (done,) = leader.completed_fetches(world.now_s)
        assert done.parked is waiting and partition_of(done.response).records

        first = parked(one, high_watermark=3)
        flush(leader)
        (done,) = leader.completed_fetches(world.now_s)
        assert done.parked is first and partition_of(done.response).high_watermark == 4, "committed now"

        assert not isinstance(leader.receive(two, fetch_request(1, 4, 1, two, max_wait_ms=500), 1.0), Parked)
        overtaken = parked(one, high_watermark=4)
        again = leader.receive(one, fetch_request(1, 4, 1, one, max_wait_ms=500, high_watermark=4), world.now_s)
        (done,) = leader.completed_fetches(world.now_s)
        assert isinstance(again, Parked) and done.parked is overtaken, "one per replica"

        leader.begin_shutdown()
        leader.poll(world.now_s)
        (done,) = leader.completed_fetches(world.now_s)
        assert done.parked is again
        assert partition_of(done.response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.parametrize("who", ["follower", "unattached"])
    def test_others_say_who_leads(self, who: str) -> None:
        world, leader = three()
        node = next(each for each in world.rafts if each != leader.key.id)
        raft = world.rafts[node]
        epoch = 1
        if who == "unattached":
            raft = World([1], static([1, 2, 3])).rafts[1]
            epoch = 0
        got = partition_of(raft.receive(9, fetch_request(epoch, 0, 0, 9), world.now_s))
        assert got.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert got.current_leader.leader_id == (leader.key.id if who == "follower" else -1)


class TestReplication:
    def test_what_is_committed_is_the_same_everywhere(self) -> None:
        world, leader = three()
        leader.append([b"a", b"b"], 1)
        world.settle()
        leader.append([b"c"], 1)
        world.settle()
        for raft in world.rafts.values():
            assert values(raft) == [b"a", b"b", b"c"] and raft.high_watermark == raft.next_offset

    @pytest.mark.rule("Q4")
    def test_nothing_counts_before_it_is_durable(self) -> None:
        """KAFKA-10533: neither the leader's own records nor a follower's fetch offset."""
        world, leader = three()
        followers = [raft for raft in world.rafts.values() if raft is not leader]
        before = leader.high_watermark
        leader.append([b"a"], 1)
        assert leader.needs_flush and leader.high_watermark == before
        for done in leader.completed_fetches(world.now_s):
            source = world._parked.pop(done.parked)
            world._respond(*source, done.response)
        for raft in followers:
            assert raft.needs_flush and raft.next_offset == leader.next_offset
            assert raft.poll(world.now_s).sends == (), "its next fetch would say that it has it"
            assert raft.high_watermark == before
        flush(leader)
        assert leader.high_watermark == before, "one of three"
        flush(followers[0])
        world.settle()
        assert leader.high_watermark == leader.next_offset

    @pytest.mark.rule("Q3")
    def test_a_log_that_parted_is_cut_and_filled_again(self) -> None:
        world, leader = three()
        leader.append([b"kept"], 1)
        world.settle()
        old = leader.key.id
        world.isolate(old)
        leader.append([b"lost 1"], 1)
        leader.append([b"lost 2"], 1)
        world.run(0.1)
        new = None
        while new is None:
            world.run(0.1)
            new = next((raft for node, raft in world.rafts.items() if raft.is_leader and node != old), None)
        new.append([b"new"], 1)
        world.run(5.0)
        assert isinstance(world.rafts[old].role, Prospective | Resigned | Unattached), "cut off, it has resigned"
        assert values(world.rafts[old]) == [b"kept"]
        world.heal()
        world.run(5.0)
        for raft in world.rafts.values():
            assert values(raft) == [b"kept", b"new"]
        assert any("cut the metadata log" in note for note in world.rafts[old].take_notes())
        assert world.rafts[old].take_notes() == []

    @pytest.mark.rule("Q4")
    def test_nobody_cuts_what_is_committed(self) -> None:
        """KAFKA-12460: a leader that asks for it has lost records, and this member does not follow it there."""
        world, leader = three()
        leader.append([b"a"], 1)
        world.run(1.0)
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        asks = next(send for send in self.polled(world, follower) if isinstance(send.request, fetch.FetchRequest))
        response = leader.receive(follower.key.id, fetch_request(1, 0, 0), world.now_s)
        partition_of(response).records = None
        partition_of(response).diverging_epoch = fetch.EpochEndOffset(epoch=1, end_offset=1)
        with pytest.raises(QuorumError, match="below the high watermark 2"):
            follower.on_response(leader.key.id, asks.request, response, world.now_s)
        assert values(follower) == [b"a"]

    def polled(self, world: World, raft: Raft) -> Any:
        """Its fetch, wherever it waits now: given up, it comes again."""
        raft.on_disconnect(raft.leader_id, False, world.now_s)
        world.now_s += 0.1
        return raft.poll(world.now_s).sends

    @pytest.mark.parametrize("what", ["a hole", "an old epoch", "a future epoch", "a flipped bit", "another offset"])
    def test_what_a_follower_does_not_append(self, what: str) -> None:
        world, leader = three()
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        asks = next(send for send in self.polled(world, follower) if isinstance(send.request, fetch.FetchRequest))
        end = follower.next_offset
        base = end + 1 if what == "a hole" else end
        epoch = {"an old epoch": 0, "a future epoch": 2}.get(what, 1)
        batch = bytearray(encode_batch([Record(timestamp=1, value=b"x")], base_offset=base, leader_epoch=epoch))
        if what == "a flipped bit":
            batch[-1] ^= 1
        response = leader.receive(follower.key.id, fetch_request(1, 1, 1), world.now_s)
        partition_of(response).records = bytes(batch)
        if what == "another offset":
            follower.log.append(encode_batch([Record(value=b"y")], base_offset=end, leader_epoch=1), 1)
            end += 1
        follower.on_response(leader.key.id, asks.request, response, world.now_s)
        assert follower.next_offset == end
        assert bool(follower.take_notes()) is (what != "another offset")

    def test_only_the_leader_appends(self) -> None:
        world, leader = three()
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        with pytest.raises(NotLeader):
            follower.append([b"x"], 1)


class TestLosingTheLeader:
    @pytest.mark.rule("Q5")
    @pytest.mark.parametrize("seed", range(8))
    def test_a_leader_that_was_killed_is_replaced_within_moments(self, seed: int) -> None:
        world, leader = three(seed=seed)
        leader.append([b"a"], 1)
        world.settle()
        world.kill(leader.key.id)
        world.run(1.0)
        assert values(world.leader) == [b"a"] and world.leader.epoch > 1

    @pytest.mark.rule("Q5")
    @pytest.mark.parametrize("seed", range(4))
    def test_a_leader_that_is_silent_is_replaced_after_the_fetch_timeout(self, seed: int) -> None:
        world, leader = three(seed=seed)
        old = leader.key.id
        world.isolate(old)
        world.run(1.4)
        assert all(isinstance(raft.role, Follower) for node, raft in world.rafts.items() if node != old)
        world.run(4.0)
        assert len([raft for node, raft in world.rafts.items() if raft.is_leader and node != old]) == 1

    @pytest.mark.rule("Q3")
    def test_a_leader_without_a_majority_resigns(self) -> None:
        """KAFKA-15489. One that still has it stays, though a follower is gone."""
        world, leader = three()
        others = [node for node in world.rafts if node != leader.key.id]
        world.kill(others[0])
        world.run(20.0)
        assert leader.is_leader and leader.epoch == 1
        world.isolate(leader.key.id)
        world.run(2.0)
        assert world.leaders == [leader.key.id]
        world.run(2.0)
        assert world.leaders == [] and leader.epoch == 1

    @pytest.mark.rule("Q2")
    def test_a_cut_off_follower_does_not_disturb_when_it_returns(self) -> None:
        world, leader = three()
        cut_off = next(node for node in world.rafts if node != leader.key.id)
        world.isolate(cut_off)
        world.run(30.0)
        assert world.rafts[cut_off].epoch == 1
        leader.append([b"a"], 1)
        world.heal()
        world.run(5.0)
        assert leader.is_leader and leader.epoch == 1
        assert values(world.rafts[cut_off]) == [b"a"]

    @pytest.mark.rule("Q3")
    def test_an_orderly_shutdown_hands_over_at_once(self) -> None:
        world, leader = three()
        leader.append([b"a"], 1)
        world.run(1.0)
        epoch = leader.epoch
        leader.begin_shutdown()
        world.settle()
        assert leader.is_shut_down
        world.run(0.6)
        assert world.leader is not leader and world.leader.epoch == epoch + 1
        assert any(isinstance(request, EndQuorumEpochRequest) for _, _, request in world.sent)
        world.run(10.0)
        assert world.leader.epoch == epoch + 1, "it stands for no election any more"

    def test_a_follower_that_shuts_down_is_no_matter(self) -> None:
        world, leader = three()
        follower = next(raft for raft in world.rafts.values() if raft is not leader)
        assert not follower.is_shut_down
        follower.begin_shutdown()
        assert follower.is_shut_down

    @pytest.mark.rule("Q1")
    def test_a_leader_that_starts_again_never_leads_in_its_old_epoch(self) -> None:
        world, leader = three()
        leader.append([b"not flushed"], 1)
        node = leader.key.id
        world.kill(node, power=True)
        for other in set(world.rafts):
            world.kill(other, power=True)
        raft = world.start(node)
        assert isinstance(raft.role, Resigned) and raft.epoch == 1
        assert raft.receive(9, fetch_request(1, 0, 0), world.now_s) is not None
        for other in (1, 2, 3):
            if other != node:
                world.start(other)
        assert world.run_until_leader().epoch > 1

    @pytest.mark.rule("Q3")
    def test_every_voter_is_told_again_until_it_fetches(self) -> None:
        world, leader = three()
        silent = next(node for node in world.rafts if node != leader.key.id)
        world.isolate(silent)
        before = len(world.sent)
        world.run(5.0)
        told = [to for _, to, request in world.sent[before:] if isinstance(request, BeginQuorumEpochRequest)]
        assert set(told) == {silent} and 2 <= len(told) <= 12


class TestObservers:
    @pytest.mark.rule("Q7")
    @pytest.mark.parametrize("voters", [static([1, 2, 3]), dynamic([1, 2, 3])], ids=["static", "in the log"])
    def test_an_observer_has_everything_and_never_votes(self, voters: Any) -> None:
        world = World([1, 2, 3, 9], voters)
        leader = world.run_until_leader()
        leader.append([b"a"], 1)
        world.run(1.0)
        observer = world.rafts[9]
        assert values(observer) == [b"a"] and not observer.is_voter and observer.voters.ids == (1, 2, 3)
        for voter in (1, 2, 3):
            world.kill(voter)
        world.run(60.0)
        assert isinstance(observer.role, Follower | Unattached) and observer.epoch == leader.epoch
        assert not any(source == 9 and isinstance(request, VoteRequest) for source, _, request in world.sent)
        for voter in (1, 2, 3):
            world.start(voter)
        world.run_until_leader().append([b"b"], 1)
        world.run(5.0)
        assert values(observer) == [b"a", b"b"], "and it finds the next leader"

    @pytest.mark.rule("Q7")
    def test_observers_commit_nothing(self) -> None:
        world = World([1, 2, 3, 8, 9], static([1, 2, 3]))
        leader = world.run_until_leader()
        for node in {1, 2, 3} - {leader.key.id}:
            world.kill(node)
        before = leader.high_watermark
        leader.append([b"a"], 1)
        world.run(1.0)
        assert world.rafts[9].next_offset == leader.next_offset and leader.high_watermark == before

    def test_observers_are_bounded_and_the_longest_silent_goes_first(self) -> None:
        world, leader = three(config=replace(CONFIG, max_observers=3))
        assert isinstance(leader.role, Leader)
        for at, node in enumerate([11, 12, 13, 11, 14]):
            leader.receive(node, fetch_request(1, 0, 0, node), world.now_s + at)
        observers = [key.id for key in leader.role.replicas if key.id > 3]
        assert sorted(observers) == [11, 13, 14]
        leader.receive(15, fetch_request(1, 0, 0, 15), world.now_s + 1000)
        assert [key.id for key in leader.role.replicas if key.id > 3] == [15]


def test_a_restart_in_the_middle_keeps_what_was_committed() -> None:
    world, leader = three()
    for number in range(5):
        leader.append([b"%d" % number], 1)
        world.settle()
    for node in (1, 2, 3):
        world.kill(node, power=True)
    for node in (1, 2, 3):
        world.start(node)
    leader = world.run_until_leader()
    assert values(leader) == [b"0", b"1", b"2", b"3", b"4"]
    assert world.disks[1].exists(f"{DIR}/__cluster_metadata-0/quorum-state")
