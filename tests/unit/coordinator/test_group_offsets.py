"""OffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets."""

from uuid import UUID

import pytest
from tests.unit.coordinator.group_world import GROUP, INITIAL_DELAY_MS, GroupWorld, subscription

from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import TimerKind
from tidelog.coordinator.group import GroupState
from tidelog.coordinator.offset_fetches import offset_fetch
from tidelog.coordinator.offsets_records import (
    GroupMetadataValue,
    OffsetCommitValue,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

RETENTION_MS = 7 * 24 * 60 * 60_000
CHECK_MS = 600_000
FOR_EVER_MS = 2**31 - 1
PATIENT = GroupCoordinatorConfig(group_max_session_timeout_ms=FOR_EVER_MS, new_member_join_timeout_ms=FOR_EVER_MS)


class TestCommit:
    def test_a_simple_consumer_makes_its_group_by_committing(self) -> None:
        world = GroupWorld()
        assert world.commit_error(world.commit_offset(5)) is E.NONE
        assert world.offsets() == {("t", 0): 5}
        assert (world.state(), world.group.protocol_type) == (GroupState.EMPTY, None)

    def test_it_is_visible_only_once_it_is_committed(self) -> None:
        world = GroupWorld(auto_commit=False)
        token = world.commit_offset(5)
        assert world.is_waiting(token)
        assert world.offsets() == {}
        world.commit()
        assert world.commit_error(token) is E.NONE
        assert world.offsets() == {("t", 0): 5}

    @pytest.mark.parametrize(
        ("append_error", "error"),
        [
            (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
            (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
            (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
            (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        ],
    )
    def test_or_not_at_all(self, append_error: E, error: E) -> None:
        world = GroupWorld(auto_commit=False)
        token = world.commit_offset(5)
        world.fail(append_error)
        assert world.commit_error(token) is error
        assert world.offsets() == {}

    def test_errors_by_generation_and_member(self) -> None:
        world = GroupWorld()
        leader, _ = world.stable(2)

        def error(**kwargs: object) -> E:
            return world.commit_error(world.commit_offset(1, **kwargs))  # type: ignore[arg-type]

        assert error(member_id=leader, generation=1) is E.NONE
        assert error(member_id=leader, generation=0) is E.ILLEGAL_GENERATION
        assert error(member_id="made-up", generation=1) is E.UNKNOWN_MEMBER_ID
        assert error(member_id=leader, generation=1, instance="i") is E.UNKNOWN_MEMBER_ID
        assert error() is E.UNKNOWN_MEMBER_ID
        assert error(member_id=leader) is E.ILLEGAL_GENERATION
        assert error(group="other", member_id="m", generation=1, version=9) is E.GROUP_ID_NOT_FOUND
        assert error(group="other", member_id="m", generation=1, version=8) is E.ILLEGAL_GENERATION
        assert error(group="x" * 32_768) is E.INVALID_GROUP_ID
        assert error(metadata="x" * 4_097, member_id=leader, generation=1) is E.OFFSET_METADATA_TOO_LARGE
        assert error(metadata="x" * 4_096, member_id=leader, generation=1) is E.NONE
        assert error(metadata=None, member_id=leader, generation=1) is E.NONE

    def test_a_fenced_instance_may_not_commit(self) -> None:
        world = GroupWorld()
        token = world.join(instance="i")
        world.advance(INITIAL_DELAY_MS)
        world.finish([token])
        commit = world.commit_offset(1, member_id="old", generation=1, instance="i")
        assert world.commit_error(commit) is E.FENCED_INSTANCE_ID

    def test_during_a_rebalance(self) -> None:
        world = GroupWorld()
        leader, follower = world.stable(2)
        world.join(leader)
        commit = world.commit_offset(1, member_id=follower, generation=1)
        assert world.commit_error(commit) is E.NONE, "the old generation may still save its work"
        world.join(follower)
        commit = world.commit_offset(1, member_id=follower, generation=2)
        assert world.commit_error(commit) is E.REBALANCE_IN_PROGRESS

    def test_metadata_and_epoch_come_back(self) -> None:
        world = GroupWorld()
        world.commit_offset(5, metadata="hello")
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        partition = offset_fetch(world.shard._state, request).topics[0].partitions[0]
        assert (partition.metadata, partition.committed_leader_epoch, partition.error_code) == ("hello", -1, 0)

    def test_commits_in_flight_keep_their_order(self) -> None:
        world = GroupWorld(auto_commit=False)
        tokens = [world.commit_offset(offset) for offset in (1, 2, 3)]
        world.commit()
        assert world.offsets() == {("t", 0): 1}
        assert [world.is_waiting(token) for token in tokens] == [False, True, True]
        world.commit()
        world.commit()
        assert world.offsets() == {("t", 0): 3}


class TestFetch:
    def test_what_is_not_there_is_no_error(self) -> None:
        world = GroupWorld()
        assert world.fetched(world.fetch({"t": [0, 1]})) == {("t", 0): -1, ("t", 1): -1}
        assert world.offsets() == {}
        world.commit_offset(5)
        assert world.fetched(world.fetch({"t": [0, 1], "u": [0]})) == {("t", 0): 5, ("t", 1): -1, ("u", 0): -1}

    def test_require_stable_waits_for_the_commits_before_it(self) -> None:
        world = GroupWorld(auto_commit=False)
        world.commit_offset(1)
        world.commit_offset(2)
        token = world.fetch(require_stable=True)
        after = world.commit_offset(3)
        world.commit()
        assert world.is_waiting(token)
        world.commit()
        assert world.fetched(token) == {("t", 0): 2}
        assert world.is_waiting(after)

    def test_and_for_those_that_fail(self) -> None:
        world = GroupWorld(auto_commit=False)
        world.commit_offset(1)
        token = world.fetch(require_stable=True)
        world.fail(E.NOT_ENOUGH_REPLICAS)
        assert world.fetched(token) == {}

    def test_an_offset_of_a_deleted_topic_is_not_that_of_its_successor(self) -> None:
        world = GroupWorld()
        old, new = UUID(int=1 << 64), UUID(int=2 << 64)
        value = OffsetCommitValue(offset=5, topic_id=old)
        world.shard.replay(*offset_record(GROUP, "t", 0, value))

        def offset(topic_id: UUID) -> int:
            topic = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])
            request = OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
            return offset_fetch(world.shard._state, request).topics[0].partitions[0].committed_offset

        assert (offset(old), offset(new), offset(UUID(int=0))) == (5, -1, 5)


class TestDelete:
    def test_of_an_empty_group(self) -> None:
        world = GroupWorld()
        world.commit_offset(5)
        assert world.deleted_offset(world.delete_offset()) == (E.NONE, E.NONE)
        assert world.log[-1] == offset_tombstone(GROUP, "t", 0)
        assert world.offsets() == {}

    def test_errors(self) -> None:
        world = GroupWorld()
        assert world.deleted_offset(world.delete_offset(group="")) == (E.INVALID_GROUP_ID, None)
        assert world.deleted_offset(world.delete_offset()) == (E.GROUP_ID_NOT_FOUND, None)
        (member,) = world.stable()
        world.commit_offset(5, topic="u", member_id=member, generation=1)
        assert world.deleted_offset(world.delete_offset("t")) == (E.NONE, E.GROUP_SUBSCRIBED_TO_TOPIC)
        assert world.deleted_offset(world.delete_offset("u")) == (E.NONE, E.NONE)
        assert world.offsets() == {}

    def test_of_a_group_that_is_not_a_consumers(self) -> None:
        world = GroupWorld()
        world.stable(protocol_type="connect")
        assert world.deleted_offset(world.delete_offset()) == (E.NON_EMPTY_GROUP, None)

    def test_it_reaches_a_commit_in_flight(self) -> None:
        world = GroupWorld(auto_commit=False)
        world.commit_offset(1, topic="u")
        world.commit()
        world.commit_offset(5)
        token = world.delete_offset()
        world.commit()
        world.commit()
        assert world.deleted_offset(token) == (E.NONE, E.NONE)
        assert world.offsets() == {("u", 0): 1}

    def test_of_nothing_writes_nothing(self) -> None:
        world = GroupWorld()
        world.commit_offset(5)
        before = len(world.log)
        assert world.deleted_offset(world.delete_offset(partition=1)) == (E.NONE, E.NONE)
        assert len(world.log) == before

    def test_a_topic_that_is_deleted_takes_its_offsets(self) -> None:
        world = GroupWorld()
        world.commit_offset(5)
        world.commit_offset(6, topic="u")
        world.do(world.shard.on_topics_deleted(["t"], world.now_ms))
        assert world.offsets() == {("u", 0): 6}


class TestExpiry:
    def test_a_simple_consumers_offset_lives_from_its_commit(self) -> None:
        world = GroupWorld()
        world.commit_offset(5)
        world.advance(RETENTION_MS - 1)
        assert world.offsets() == {("t", 0): 5}
        world.advance(CHECK_MS)
        assert world.offsets() == {}
        assert world.log[-2:] == [offset_tombstone(GROUP, "t", 0), group_tombstone(GROUP)]
        assert not world.shard.groups
        assert world.shard.groups == world.reloaded().shard.groups

    def test_a_group_with_members_keeps_what_it_is_subscribed_to(self) -> None:
        world = GroupWorld(PATIENT)
        (member,) = world.stable(session_ms=FOR_EVER_MS)
        for topic in ("t", "u"):
            world.commit_offset(5, topic=topic, member_id=member, generation=1)
        world.heartbeat(member, 1)
        world.advance(RETENTION_MS + CHECK_MS)
        assert world.offsets() == {("t", 0): 5}
        assert world.state() is GroupState.STABLE

    def test_an_empty_group_keeps_all_for_the_retention_since_then(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        world.commit_offset(5, member_id=member, generation=1)
        world.leave(member)
        world.advance(RETENTION_MS - 1)
        assert world.offsets() == {("t", 0): 5}
        assert world.reloaded().offsets() == {("t", 0): 5}
        world.advance(CHECK_MS)
        assert not world.shard.groups

    def test_not_during_a_rebalance(self) -> None:
        world = GroupWorld(PATIENT)
        (member,) = world.stable(session_ms=FOR_EVER_MS, rebalance_ms=FOR_EVER_MS)
        world.commit_offset(5, topic="u", member_id=member, generation=1)
        world.join(version=3, session_ms=FOR_EVER_MS, rebalance_ms=FOR_EVER_MS)
        world.advance(RETENTION_MS * 2)
        assert world.offsets() == {("u", 0): 5}

    def test_a_subscription_we_cannot_read_keeps_everything(self) -> None:
        world = GroupWorld(PATIENT)
        (member,) = world.stable(session_ms=FOR_EVER_MS, protocols=(("range", b"?"),))
        world.commit_offset(5, topic="u", member_id=member, generation=1)
        world.advance(RETENTION_MS * 2)
        assert world.offsets() == {("u", 0): 5}

    def test_a_commit_with_its_own_retention(self) -> None:
        world = GroupWorld()
        world.commit_offset(5, version=2, retention_ms=1_000)
        world.advance(CHECK_MS)
        assert world.offsets() == {}

    def test_never_past_a_commit_in_flight(self) -> None:
        world = GroupWorld()
        world.commit_offset(5)
        world.advance(RETENTION_MS - 1)
        world.auto_commit = False
        world.commit_offset(6)
        world.advance(CHECK_MS)
        world.commit()
        assert world.appends == []
        assert world.offsets() == {("t", 0): 6}

    def test_a_group_from_before_state_timestamps(self) -> None:
        log = [group_record(GROUP, GroupMetadataValue(protocol_type="consumer", generation=3))]
        log.append(offset_record(GROUP, "t", 0, OffsetCommitValue(offset=5, commit_timestamp=1_000_000)))
        world = GroupWorld(log=log)
        assert world.group.state_since_ms is None
        world.advance(RETENTION_MS + CHECK_MS)
        assert not world.shard.groups

    def test_a_pass_is_bounded_and_the_next_one_goes_on(self) -> None:
        world = GroupWorld(GroupCoordinatorConfig(max_tombstones_per_pass=3))
        for n in range(8):
            world.commit_offset(n, group=f"g{n}")
        world.advance(RETENTION_MS - CHECK_MS)
        written = len(world.log)
        world.advance(CHECK_MS)
        assert 0 < len(world.log) - written <= 4
        world.advance(CHECK_MS * 5)
        assert not world.shard.groups

    def test_if_the_tombstones_fail_nothing_is_lost(self) -> None:
        world = GroupWorld()
        (member,) = world.stable(protocols=(("range", subscription("u")),))
        world.commit_offset(5, member_id=member, generation=1)
        world.leave(member)
        empty_since = world.group.state_since_ms
        world.advance(RETENTION_MS - 1)
        world.auto_commit = False
        world.advance(CHECK_MS)
        assert world.state() is GroupState.DEAD
        world.fail(E.NOT_ENOUGH_REPLICAS)
        assert (world.state(), world.group.state_since_ms) == (GroupState.EMPTY, empty_since)
        assert world.offsets() == {("t", 0): 5}
        assert world.has_timer(TimerKind.EXPIRATION, group="")
        world.auto_commit = True
        world.advance(CHECK_MS)
        assert not world.shard.groups
