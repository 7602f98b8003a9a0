"""SyncGroup, Heartbeat and LeaveGroup: their errors, state by state, and what they set off."""

import pytest
from tests.unit.coordinator.group_world import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
)

from tidelog.coordinator.effects import TimerKind
from tidelog.coordinator.group import TRANSITIONS, GroupState
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.leave_group import MemberIdentity


def completing() -> tuple[GroupWorld, str, str]:
    """Two members that have joined generation 1 and not yet synced: leader, follower."""
    world = GroupWorld()
    tokens = [world.join(version=3), world.join(version=3)]
    world.advance(INITIAL_DELAY_MS * 2)
    leader, follower = (world.joined(token).member_id for token in tokens)
    return world, leader, follower


def preparing() -> tuple[GroupWorld, str, str]:
    """Two members of generation 1, of which the leader has begun to rejoin."""
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    return world, leader, follower


def sync_error(world: GroupWorld, *args: object, **kwargs: object) -> E:
    return E(world.synced(world.sync(*args, **kwargs)).error_code)  # type: ignore[arg-type]


class TestSync:
    def test_errors(self) -> None:
        world, leader, follower = completing()
        assert sync_error(world, leader, 1, group="") is E.INVALID_GROUP_ID
        assert sync_error(world, leader, 1, group="other") is E.UNKNOWN_MEMBER_ID
        assert sync_error(world, "made-up", 1) is E.UNKNOWN_MEMBER_ID
        assert sync_error(world, leader, 1, instance="i") is E.UNKNOWN_MEMBER_ID
        assert sync_error(world, leader, 0) is E.ILLEGAL_GENERATION
        assert sync_error(world, leader, 1, protocol_name="sticky") is E.INCONSISTENT_GROUP_PROTOCOL
        assert sync_error(world, leader, 1, protocol_type="connect") is E.INCONSISTENT_GROUP_PROTOCOL
        assert sync_error(world, leader, 1, protocol_type=None) is E.INCONSISTENT_GROUP_PROTOCOL
        world, leader, follower = preparing()
        assert sync_error(world, follower, 1) is E.REBALANCE_IN_PROGRESS
        assert sync_error(world, leader, 2) is E.ILLEGAL_GENERATION

    def test_an_empty_group_has_no_member_to_sync(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        world.leave(member)
        assert sync_error(world, member, 1) is E.UNKNOWN_MEMBER_ID

    def test_assignments_are_given_out_once_they_are_in_the_log(self) -> None:
        world, leader, follower = completing()
        world.auto_commit = False
        first = world.sync(follower, 1, version=4, protocol_type=None, protocol_name=None)
        second = world.sync(leader, 1, {leader: b"L", follower: b"F", "made-up": b"X"})
        assert world.is_waiting(first)
        assert world.is_waiting(second)
        assert world.state() is GroupState.COMPLETING_REBALANCE
        world.commit()
        assert world.state() is GroupState.STABLE
        assert (world.synced(first).assignment, world.synced(second).assignment) == (b"F", b"L")
        assert (world.synced(first).protocol_type, world.synced(first).protocol_name) == ("consumer", "range")
        stored = world.reloaded().group
        assert {m.member_id: m.assignment for m in stored.members.values()} == {leader: b"L", follower: b"F"}

    def test_a_member_the_leader_forgot_gets_nothing(self) -> None:
        world, leader, follower = completing()
        world.sync(leader, 1, {leader: b"L"})
        assert world.synced(world.sync(follower, 1)).assignment == b""

    def test_a_late_follower_gets_its_assignment_from_the_stable_group(self) -> None:
        world, leader, follower = completing()
        world.sync(leader, 1, {leader: b"L", follower: b"F"})
        assert world.has_timer(TimerKind.SYNC)
        assert world.synced(world.sync(follower, 1)).assignment == b"F"
        assert not world.has_timer(TimerKind.SYNC)

    @pytest.mark.parametrize(
        ("append_error", "error"),
        [
            (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
            (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
            (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
            (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
            (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
            (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
            (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
            (E.INVALID_FETCH_SIZE, E.UNKNOWN_SERVER_ERROR),
            (E.CORRUPT_MESSAGE, E.CORRUPT_MESSAGE),
        ],
    )
    def test_an_assignment_that_cannot_be_stored_fails_and_rebalances(self, append_error: E, error: E) -> None:
        world, leader, follower = completing()
        world.auto_commit = False
        tokens = [world.sync(follower, 1), world.sync(leader, 1, {leader: b"L"})]
        world.fail(append_error)
        assert [world.synced(token).error_code for token in tokens] == [error, error]
        assert world.state() is GroupState.PREPARING_REBALANCE

    def test_a_rebalance_while_it_is_stored_wins(self) -> None:
        world, leader, follower = completing()
        world.auto_commit = False
        token = world.sync(leader, 1, {leader: b"L"})
        world.leave(follower)
        assert world.synced(token).error_code == E.REBALANCE_IN_PROGRESS
        assert world.joined(world.join(leader)).generation_id == 2
        token = world.sync(leader, 2, {leader: b"new"})
        world.commit()
        assert world.state() is GroupState.COMPLETING_REBALANCE
        world.commit()
        assert world.synced(token).assignment == b"new"

    def test_a_leader_that_syncs_again_does_not_write_again(self) -> None:
        world, leader, _ = completing()
        world.auto_commit = False
        first = world.sync(leader, 1, {leader: b"L"})
        second = world.sync(leader, 1, {leader: b"other"})
        assert world.synced(first).error_code == E.REBALANCE_IN_PROGRESS
        assert len(world.appends) == 1
        world.commit()
        assert world.synced(second).assignment == b"L"

    def test_members_that_never_sync_are_out(self) -> None:
        world, leader, follower = completing()
        world.sync(leader, 1, {leader: b"L"})
        for _ in range(REBALANCE_MS // 5_000):
            world.advance(5_000)
            for member in (leader, follower):
                world.heartbeat(member, 1)
        assert set(world.group.members) == {leader}
        assert world.state() is GroupState.PREPARING_REBALANCE


class TestHeartbeat:
    def test_errors(self) -> None:
        world, leader, follower = preparing()
        assert world.heartbeat(leader, 1, group="") is E.INVALID_GROUP_ID
        assert world.heartbeat(leader, 1, group="other") is E.UNKNOWN_MEMBER_ID
        assert world.heartbeat("made-up", 1) is E.UNKNOWN_MEMBER_ID
        assert world.heartbeat(follower, 0) is E.ILLEGAL_GENERATION
        assert world.heartbeat(follower, 1) is E.REBALANCE_IN_PROGRESS

    def test_an_id_given_out_is_no_member_yet(self) -> None:
        world = GroupWorld()
        assert world.heartbeat(world.new_member_id(), 0) is E.UNKNOWN_MEMBER_ID

    def test_it_counts_already_while_completing(self) -> None:
        world, leader, follower = completing()
        world.advance(SESSION_MS - 1)
        assert world.heartbeat(leader, 1) is E.NONE
        world.advance(1)
        assert follower not in world.group.members
        assert leader in world.group.members

    def test_a_session_lives_from_heartbeat_to_heartbeat(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        for _ in range(5):
            world.advance(SESSION_MS - 1)
            assert world.heartbeat(member, 1) is E.NONE
        world.advance(SESSION_MS)
        assert world.heartbeat(member, 1) is E.UNKNOWN_MEMBER_ID
        assert world.state() is GroupState.EMPTY

    def test_commits_keep_a_session_too(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        world.advance(SESSION_MS - 1)
        world.commit_offset(1, member_id=member, generation=1)
        world.advance(SESSION_MS - 1)
        assert world.heartbeat(member, 1) is E.NONE

    def test_waiting_for_us_is_not_silence(self) -> None:
        world, leader, follower = completing()
        token = world.sync(follower, 1)
        for _ in range(4):
            world.advance(SESSION_MS - 1)
            world.heartbeat(leader, 1)
        assert world.is_waiting(token)
        assert follower in world.group.members

    def test_a_new_member_does_not_wait_for_ever(self) -> None:
        world = GroupWorld()
        leader, follower = world.stable(2, rebalance_ms=1_000_000)
        world.join(leader, rebalance_ms=1_000_000)
        token = world.join(version=3)
        for _ in range(60):
            assert world.is_waiting(token)
            assert world.heartbeat(follower, 1) is E.REBALANCE_IN_PROGRESS
            world.advance(5_000)
        assert world.joined(token).error_code == E.UNKNOWN_MEMBER_ID


class TestLeave:
    def test_the_last_one_leaves_an_empty_group(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        response = world.left(world.leave(member))
        assert [m.error_code for m in response.members] == [E.NONE]
        assert world.state() is GroupState.EMPTY
        assert world.group.generation_id == 2
        assert not world.has_timer(TimerKind.HEARTBEAT, member)
        stored = world.reloaded().group
        assert (stored.state, stored.generation_id, stored.protocol_type) == (GroupState.EMPTY, 2, "consumer")

    def test_its_answer_waits_for_the_log(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        world.auto_commit = False
        token = world.leave(member)
        assert world.is_waiting(token)
        world.fail(E.NOT_ENOUGH_REPLICAS)
        assert world.left(token).error_code == E.COORDINATOR_NOT_AVAILABLE

    def test_several_at_once_each_with_its_own_error(self) -> None:
        world = GroupWorld()
        leader, follower = world.stable(2)
        pending = world.new_member_id()
        response = world.left(world.leave(follower, "made-up", pending, follower))
        assert [m.error_code for m in response.members] == [
            E.NONE,
            E.UNKNOWN_MEMBER_ID,
            E.NONE,
            E.UNKNOWN_MEMBER_ID,
        ]
        assert set(world.group.members) == {leader}
        assert world.state() is GroupState.PREPARING_REBALANCE

    def test_an_unused_id_leaves_without_a_rebalance(self) -> None:
        world = GroupWorld()
        world.stable()
        world.leave(world.new_member_id())
        assert world.state() is GroupState.STABLE
        assert not world.group.pending_join

    def test_an_unused_id_takes_its_group_with_it(self) -> None:
        world = GroupWorld()
        world.leave(world.new_member_id())
        assert not world.shard.groups

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_older_versions_say_it_at_the_top(self, version: int) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        assert world.left(world.leave("made-up", version=version)).error_code == E.UNKNOWN_MEMBER_ID
        assert world.left(world.leave(member, version=version)).error_code == E.NONE

    def test_no_such_group(self) -> None:
        world = GroupWorld()
        assert world.left(world.leave("m", group="")).error_code == E.INVALID_GROUP_ID
        response = world.left(world.leave("m", group="other"))
        assert [m.error_code for m in response.members] == [E.UNKNOWN_MEMBER_ID]
        assert world.left(world.leave("m", group="other", version=2)).error_code == E.UNKNOWN_MEMBER_ID

    def test_static_members_leave_by_instance(self) -> None:
        world = GroupWorld()
        token = world.join(instance="i")
        world.advance(INITIAL_DELAY_MS)
        world.finish([token])
        unknown = MemberIdentity(member_id="", group_instance_id="other")
        fenced = MemberIdentity(member_id="old", group_instance_id="i")
        admin = MemberIdentity(member_id="", group_instance_id="i")
        response = world.left(world.leave(unknown, fenced, admin))
        assert [m.error_code for m in response.members] == [E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.NONE]
        assert world.state() is GroupState.EMPTY

    def test_a_parked_join_and_a_parked_sync_are_answered(self) -> None:
        world, _, follower = preparing()
        token = world.join(follower, protocols=(("range", b"other"),))
        assert not world.is_waiting(token)
        syncing = world.sync(follower, 2)
        world.leave(follower)
        assert world.synced(syncing).error_code == E.UNKNOWN_MEMBER_ID
        rejoining = world.join(version=3)
        world.leave(world.group.leader_id or "", *list(world.group.members))
        assert world.joined(rejoining).error_code == E.UNKNOWN_MEMBER_ID


def test_only_the_table_says_which_moves_are_legal() -> None:
    world = GroupWorld()
    world.stable()
    for state in set(GroupState) - TRANSITIONS[GroupState.STABLE]:
        with pytest.raises(AssertionError, match=GROUP):
            world.group.transition_to(state, 0)
    assert all(GroupState.DEAD in targets for state, targets in TRANSITIONS.items() if state is not GroupState.DEAD)
