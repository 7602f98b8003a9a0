"""DescribeGroups, ListGroups, DeleteGroups; loading and unloading a shard."""

import random

import pytest
from tests.unit.coordinator.group_world import GROUP, INITIAL_DELAY_MS, GroupWorld, subscription

from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import Caller, Respond, TimerKind
from tidelog.coordinator.group import GroupState
from tidelog.coordinator.offsets_records import group_tombstone, offset_tombstone
from tidelog.coordinator.shard import GroupShard
from tidelog.wire.errors import ApiError, WireError
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


class TestDescribe:
    def test_a_stable_group_shows_metadata_and_assignments(self) -> None:
        world = GroupWorld()
        (member,) = world.stable(client_id="app")
        described = world.shard.describe_group(GROUP, 6)
        assert (described.group_state, described.protocol_type, described.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (shown,) = described.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (member, "app", "/127.0.0.1")
        assert (shown.member_metadata, shown.member_assignment) == (subscription("t"), b"1:0")

    def test_another_does_not(self) -> None:
        world = GroupWorld()
        leader, _ = world.stable(2)
        world.join(leader)
        described = world.shard.describe_group(GROUP, 6)
        assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
        assert {(m.member_metadata, m.member_assignment) for m in described.members} == {(b"", b"")}

    def test_one_that_does_not_exist(self) -> None:
        world = GroupWorld()
        old, new = (world.shard.describe_group("other", version) for version in (5, 6))
        assert (old.group_state, old.error_code) == ("Dead", E.NONE)
        assert (new.group_state, new.error_code) == ("Dead", E.GROUP_ID_NOT_FOUND)
        assert "other" in (new.error_message or "")


class TestList:
    @pytest.mark.parametrize(
        ("states", "types", "expected"),
        [
            ([], [], {"g", "simple"}),
            (["stable"], [], {"g"}),
            (["Empty", " STABLE "], [], {"g", "simple"}),
            (["Dead"], [], set()),
            ([], ["Classic"], {"g", "simple"}),
            ([], ["consumer"], set()),
            (["Empty"], ["classic", "share"], {"simple"}),
        ],
    )
    def test_filters(self, states: list[str], types: list[str], expected: set[str]) -> None:
        world = GroupWorld()
        world.stable()
        world.commit_offset(1, group="simple")
        assert {group.group_id for group in world.shard.list_groups(states, types)} == expected

    def test_what_is_told(self) -> None:
        world = GroupWorld()
        world.stable()
        (group,) = world.shard.list_groups([], [])
        assert (group.protocol_type, group.group_state, group.group_type) == ("consumer", "Stable", "classic")


class TestDelete:
    def test_errors_and_success(self) -> None:
        world = GroupWorld()
        world.stable()
        world.commit_offset(1, group="simple")
        assert world.deleted(world.delete_groups("", GROUP, "other", "simple")) == {
            "": E.INVALID_GROUP_ID,
            GROUP: E.NON_EMPTY_GROUP,
            "other": E.GROUP_ID_NOT_FOUND,
            "simple": E.NONE,
        }
        assert world.log[-2:] == [offset_tombstone("simple", "t", 0), group_tombstone("simple")]
        assert world.deleted(world.delete_groups("simple")) == {"simple": E.GROUP_ID_NOT_FOUND}
        assert set(world.reloaded().shard.groups) == {GROUP}

    def test_while_it_is_being_deleted_it_is_dead(self) -> None:
        world = GroupWorld()
        world.commit_offset(1)
        world.auto_commit = False
        token = world.delete_groups(GROUP)
        assert world.is_waiting(token)
        assert world.join_error() is E.COORDINATOR_NOT_AVAILABLE
        assert world.commit_error(world.commit_offset(2)) is E.COORDINATOR_NOT_AVAILABLE
        assert world.heartbeat("m", 1) is E.COORDINATOR_NOT_AVAILABLE
        assert world.synced(world.sync("m", 1)).error_code == E.COORDINATOR_NOT_AVAILABLE
        assert world.left(world.leave("m")).error_code == E.COORDINATOR_NOT_AVAILABLE
        assert world.deleted_offset(world.delete_offset()) == (E.GROUP_ID_NOT_FOUND, None)
        assert world.deleted(world.delete_groups(GROUP)) == {GROUP: E.GROUP_ID_NOT_FOUND}
        assert world.offsets() == {}
        world.commit()
        assert world.deleted(token) == {GROUP: E.NONE}
        assert not world.shard.groups
        assert world.is_waiting(world.join(version=3))

    def test_if_it_fails_the_group_is_as_before(self) -> None:
        world = GroupWorld()
        (member,) = world.stable()
        world.commit_offset(1, member_id=member, generation=1)
        world.leave(member)
        world.auto_commit = False
        token = world.delete_groups(GROUP, "other")
        world.fail(E.NOT_ENOUGH_REPLICAS)
        assert world.deleted(token) == {GROUP: E.COORDINATOR_NOT_AVAILABLE, "other": E.GROUP_ID_NOT_FOUND}
        assert (world.state(), world.group.generation_id) == (GroupState.EMPTY, 2)
        assert world.offsets() == {("t", 0): 1}

    def test_it_reaches_a_commit_in_flight(self) -> None:
        world = GroupWorld()
        world.commit_offset(1)
        world.auto_commit = False
        world.commit_offset(2, partition=1)
        world.delete_groups(GROUP)
        world.commit()
        world.commit()
        assert not world.shard.groups
        world.commit_offset(3, partition=2)
        world.commit()
        assert world.offsets() == world.reloaded().offsets() == {("t", 2): 3}, "nothing of its old life"


class TestLife:
    def test_loading(self) -> None:
        shard = GroupShard(3, GroupCoordinatorConfig(), random.Random(1))
        joining = shard.join_group(JoinGroupRequest(group_id=GROUP, member_id="m"), Caller(1, 9), 0)
        assert joining.effects == (
            Respond(1, JoinGroupResponse(error_code=E.COORDINATOR_LOAD_IN_PROGRESS, member_id="m")),
        )
        beating = shard.heartbeat(HeartbeatRequest(group_id=GROUP), Caller(2, 4), 0)
        assert beating.effects == (Respond(2, HeartbeatResponse()),)
        assert shard.describe_group(GROUP, 6).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(ApiError) as caught:
            shard.list_groups([], [])
        assert caught.value.code is E.COORDINATOR_LOAD_IN_PROGRESS

    def test_a_loaded_group_goes_on_with_fresh_sessions(self) -> None:
        world = GroupWorld()
        leader, follower = world.stable(2)
        world.commit_offset(5, member_id=leader, generation=1)
        after = world.reloaded()
        assert after.state() is GroupState.STABLE
        assert after.offsets() == {("t", 0): 5}
        assert all(after.has_timer(TimerKind.HEARTBEAT, member) for member in (leader, follower))
        assert after.heartbeat(leader, 1) is E.NONE
        assert after.synced(after.sync(follower, 1)).assignment == b"1:1"
        assert (after.group.leader_id, after.group.subscribed) == (leader, frozenset({"t"}))

    def test_unloading_sends_everybody_away(self) -> None:
        world = GroupWorld()
        leader, _ = world.stable(2)
        joining = world.join(leader)
        completing = world.join(version=3, group="c")
        world.advance(INITIAL_DELAY_MS)
        syncing = world.join(version=3, group="c2", instance="i")
        world.advance(INITIAL_DELAY_MS)
        syncing = world.sync(world.joined(syncing).member_id, 1, group="c2", instance="other")
        world.auto_commit = False
        syncing = world.sync(world.joined(completing).member_id, 1, group="c")
        committing = world.commit_offset(1, group="simple")
        fetching = world.fetch(require_stable=True)
        world.do(world.shard.unload(world.now_ms))
        assert world.joined(joining).error_code == E.NOT_COORDINATOR
        assert world.synced(syncing).error_code == E.NOT_COORDINATOR
        assert world.commit_error(committing) is E.NOT_COORDINATOR
        assert world.responses[fetching].error_code == E.NOT_COORDINATOR
        assert world.join_error() is E.NOT_COORDINATOR
        assert world.heartbeat(leader, 1) is E.NOT_COORDINATOR
        assert world.shard.describe_group(GROUP, 6).error_code == E.NOT_COORDINATOR
        assert world.shard.list_groups([], []) == []
        world.commit()
        assert not world.shard.groups

    def test_records_of_newer_kinds_are_left_alone_and_newer_values_refused(self) -> None:
        world = GroupWorld()
        world.shard.replay(b"\0\3\0\1g", b"\0\0")
        assert world.shard.unknown_records == 1
        with pytest.raises(WireError, match="version 5"):
            world.shard.replay(group_tombstone(GROUP)[0], b"\0\5")
