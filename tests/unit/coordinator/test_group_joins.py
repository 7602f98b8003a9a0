"""JoinGroup: who gets in, and with which error who does not."""

from collections.abc import Callable

import pytest
from tests.unit.coordinator.group_world import (
    GROUP,
    INITIAL_DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
    subscription,
)

from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import TimerKind
from tidelog.coordinator.group import GroupState
from tidelog.wire.errors import ErrorCode as E


def with_size(size: int) -> GroupWorld:
    return GroupWorld(GroupCoordinatorConfig(group_max_size=size))


def in_state(state: GroupState) -> tuple[GroupWorld, str, int]:
    """A group in that state with one member, its id and its generation."""
    world = GroupWorld()
    if state is GroupState.STABLE:
        (member,) = world.stable()
        return world, member, 1
    member = world.new_member_id()
    if state is GroupState.EMPTY:
        return world, member, 0
    world.join(member)
    if state is GroupState.COMPLETING_REBALANCE:
        world.advance(INITIAL_DELAY_MS)
        return world, member, 1
    return world, member, 0


REFUSALS: dict[str, tuple[Callable[[], E], E]] = {
    "no group id": (lambda: GroupWorld().join_error(group=""), E.INVALID_GROUP_ID),
    "session too short": (lambda: GroupWorld().join_error(session_ms=5_999), E.INVALID_SESSION_TIMEOUT),
    "session too long": (lambda: GroupWorld().join_error(session_ms=1_800_001), E.INVALID_SESSION_TIMEOUT),
    "a name no record can hold": (lambda: GroupWorld().join_error(instance="ü" * 16_384), E.INVALID_REQUEST),
    "id of no group": (lambda: GroupWorld().join_error("made-up"), E.UNKNOWN_MEMBER_ID),
    "id of no member": (lambda: in_state(GroupState.STABLE)[0].join_error("made-up"), E.UNKNOWN_MEMBER_ID),
    "no id yet": (lambda: GroupWorld().join_error(version=4), E.MEMBER_ID_REQUIRED),
    "no protocols": (lambda: GroupWorld().join_error(protocols=()), E.INCONSISTENT_GROUP_PROTOCOL),
    "no protocol type": (lambda: GroupWorld().join_error(protocol_type=""), E.INCONSISTENT_GROUP_PROTOCOL),
    "another protocol type": (
        lambda: in_state(GroupState.STABLE)[0].join_error(protocol_type="connect"),
        E.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "no protocol in common": (
        lambda: in_state(GroupState.STABLE)[0].join_error(protocols=(("sticky", b""),)),
        E.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "unknown instance with an id": (
        lambda: in_state(GroupState.STABLE)[0].join_error("made-up", instance="i"),
        E.UNKNOWN_MEMBER_ID,
    ),
    "a dynamic member's pending id as a static one": (
        lambda: (world := GroupWorld()).join_error(world.new_member_id(), instance="i"),
        E.UNKNOWN_MEMBER_ID,
    ),
    "group is full": (
        lambda: (world := with_size(1), world.stable())[0].join_error(version=3),
        E.GROUP_MAX_SIZE_REACHED,
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    attempt, error = REFUSALS[case]
    assert attempt() is error


def test_a_dynamic_member_comes_back_with_its_id_from_v4_on() -> None:
    world = GroupWorld()
    member = world.new_member_id(version=4, client_id="app")
    assert member.startswith("app-")
    assert world.has_timer(TimerKind.HEARTBEAT, member)
    token = world.join(member)
    assert world.is_waiting(token)
    world.advance(INITIAL_DELAY_MS)
    response = world.joined(token)
    assert (response.generation_id, response.leader, response.member_id) == (1, member, member)
    assert [(m.member_id, m.metadata) for m in response.members] == [(member, subscription("t"))]
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_versions_join_in_one_step(version: int) -> None:
    world = GroupWorld()
    token = world.join(version=version)
    world.advance(INITIAL_DELAY_MS)
    assert world.joined(token).error_code == E.NONE


def test_v0_uses_the_session_timeout_for_rebalances() -> None:
    world = GroupWorld()
    world.join(version=0, rebalance_ms=-1)
    assert world.group.rebalance_timeout_ms == SESSION_MS


def test_an_id_never_used_is_forgotten_with_its_group() -> None:
    world = GroupWorld()
    world.new_member_id()
    world.advance(SESSION_MS)
    assert GROUP not in world.shard.groups
    assert world.log == []


def test_a_refused_join_leaves_no_group() -> None:
    world = GroupWorld()
    world.join_error(protocols=())
    assert not world.shard.groups


def test_the_join_phase_waits_for_ids_given_out() -> None:
    world = GroupWorld()
    (leader,) = world.stable()
    late = world.new_member_id()
    token = world.join(leader)
    assert world.is_waiting(token)
    world.join(late)
    assert world.joined(token).generation_id == 2


def test_the_join_phase_ends_when_the_id_it_waits_for_expires() -> None:
    world = GroupWorld()
    (leader,) = world.stable()
    world.new_member_id()
    token = world.join(leader)
    world.advance(SESSION_MS)
    assert world.joined(token).generation_id == 2


def test_ids_given_out_are_bounded() -> None:
    world = GroupWorld(GroupCoordinatorConfig(max_pending_members=2))
    first = world.new_member_id()
    world.new_member_id()
    assert world.join_error() is E.GROUP_MAX_SIZE_REACHED
    assert world.is_waiting(world.join(first))


class TestInitialDelay:
    def test_the_first_phase_lasts_the_initial_delay(self) -> None:
        world = GroupWorld()
        token = world.join(version=3)
        world.advance(INITIAL_DELAY_MS - 1)
        assert world.is_waiting(token)
        world.advance(1)
        assert not world.is_waiting(token)

    def test_newcomers_prolong_it_up_to_the_rebalance_timeout(self) -> None:
        world = GroupWorld()
        rebalance_ms = 7_000
        first = world.join(version=3, rebalance_ms=rebalance_ms)
        for _ in range(10):
            if not world.is_waiting(first):
                break
            world.join(version=3, rebalance_ms=rebalance_ms)
            world.advance(1_000)
        # 3 s, then 3 s, then the last second
        assert world.now_ms - 1_000_000 == 7_000
        assert world.joined(first).generation_id == 1

    def test_later_phases_do_not_wait(self) -> None:
        world = GroupWorld()
        (leader,) = world.stable()
        second = world.join(version=3)
        assert world.is_waiting(second)
        world.join(leader)
        assert world.joined(second).generation_id == 2


class TestRejoin:
    def test_a_follower_without_news_hears_of_its_generation(self) -> None:
        world = GroupWorld()
        leader, follower = world.stable(2)
        response = world.joined(world.join(follower))
        assert (response.generation_id, response.leader, response.members) == (1, leader, [])
        assert world.state() is GroupState.STABLE

    def test_a_leader_that_rejoins_wants_a_rebalance(self) -> None:
        world = GroupWorld()
        leader, _ = world.stable(2)
        world.join(leader)
        assert world.state() is GroupState.PREPARING_REBALANCE

    def test_changed_metadata_means_a_rebalance(self) -> None:
        world = GroupWorld()
        _, follower = world.stable(2)
        world.join(follower, protocols=(("range", subscription("t", "u")),))
        assert world.state() is GroupState.PREPARING_REBALANCE

    def test_a_lost_response_is_given_again(self) -> None:
        world, member, generation = in_state(GroupState.COMPLETING_REBALANCE)
        response = world.joined(world.join(member))
        assert (response.generation_id, len(response.members)) == (generation, 1)
        assert world.state() is GroupState.COMPLETING_REBALANCE

    def test_changed_metadata_while_completing_starts_over(self) -> None:
        world, member, _ = in_state(GroupState.COMPLETING_REBALANCE)
        token = world.join(member, protocols=(("range", b"new"),))
        assert world.joined(token).generation_id == 2

    def test_a_second_join_ends_the_first(self) -> None:
        world, member, _ = in_state(GroupState.PREPARING_REBALANCE)
        first = 2
        assert world.is_waiting(first)
        second = world.join(member)
        assert world.joined(first).error_code == E.REBALANCE_IN_PROGRESS
        world.advance(INITIAL_DELAY_MS)
        assert world.joined(second).error_code == E.NONE


class TestSize:
    def test_members_of_a_full_group_may_rejoin(self) -> None:
        world = with_size(1)
        (leader,) = world.stable()
        assert world.joined(world.join(leader)).error_code == E.NONE

    def test_the_last_to_come_are_turned_away_while_preparing(self) -> None:
        world = with_size(1)
        first = world.join(version=3)
        assert world.join_error(version=3) is E.GROUP_MAX_SIZE_REACHED
        world.advance(INITIAL_DELAY_MS)
        assert len(world.joined(first).members) == 1

    def test_a_loaded_group_over_its_size_rebalances_and_shrinks(self) -> None:
        world = GroupWorld()
        leader, second, third = world.stable(3)
        world.config = GroupCoordinatorConfig(group_max_size=2)
        world = world.reloaded()
        assert world.state() is GroupState.PREPARING_REBALANCE
        tokens = [world.join(leader), world.join(second)]
        assert world.join_error(third) is E.GROUP_MAX_SIZE_REACHED
        assert [world.joined(token).generation_id for token in tokens] == [2, 2]


class TestProtocols:
    def test_votes_decide_among_what_all_support(self) -> None:
        world = GroupWorld()
        a, b, c = ("a", b""), ("b", b""), ("c", b"")
        tokens = [world.join(version=3, protocols=protocols) for protocols in ((a, b, c), (c, b), (b, c))]
        world.advance(INITIAL_DELAY_MS * 2)
        assert {world.joined(token).protocol_name for token in tokens} == {"b"}

    def test_a_name_twice_counts_once_and_first(self) -> None:
        world = GroupWorld()
        token = world.join(version=3, protocols=(("a", b"1"), ("b", b""), ("a", b"2")))
        world.advance(INITIAL_DELAY_MS)
        response = world.joined(token)
        assert (response.protocol_name, response.members[0].metadata) == ("a", b"1")

    def test_what_members_subscribe_to_is_known(self) -> None:
        world = GroupWorld()
        for topic in ("t", "u"):
            world.join(version=3, protocols=(("range", subscription(topic)),))
        world.advance(INITIAL_DELAY_MS * 2)
        assert world.group.subscribed == frozenset({"t", "u"})

    @pytest.mark.parametrize("metadata", [b"", b"\0\1", b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\5ab"])
    def test_or_unknown_when_it_cannot_be_read(self, metadata: bytes) -> None:
        world = GroupWorld()
        world.join(version=3, protocols=(("range", metadata),))
        world.advance(INITIAL_DELAY_MS)
        assert world.group.subscribed is None
        assert world.group.is_subscribed_to("anything")


class TestStaticMembers:
    def join_static(self, world: GroupWorld, instance: str = "i") -> str:
        token = world.join(instance=instance)
        world.advance(INITIAL_DELAY_MS)
        world.finish([token])
        return world.joined(token).member_id

    def test_it_needs_no_second_step(self) -> None:
        world = GroupWorld()
        assert self.join_static(world).startswith("i-")
        assert world.state() is GroupState.STABLE

    def test_a_restart_takes_the_old_place_without_a_rebalance(self) -> None:
        world = GroupWorld()
        old = self.join_static(world)
        token = world.join(instance="i")
        response = world.joined(token)
        new = response.member_id
        assert new != old
        assert world.state() is GroupState.STABLE
        assert (response.generation_id, response.leader, response.skip_assignment) == (1, new, True)
        assert [member.member_id for member in response.members] == [new]
        assert world.synced(world.sync(new, 1, instance="i")).assignment == b"1:0"
        assert world.heartbeat(old, 1, instance="i") is E.FENCED_INSTANCE_ID
        assert world.join_error(old, instance="i") is E.FENCED_INSTANCE_ID
        assert not world.has_timer(TimerKind.HEARTBEAT, old)
        assert world.reloaded().group.static_members == {"i": new}

    def test_an_older_restarted_leader_is_shown_another_leader(self) -> None:
        world = GroupWorld()
        old = self.join_static(world)
        response = world.joined(world.join(instance="i", version=8))
        assert (response.leader, response.members, response.skip_assignment) == (old, [], False)

    def test_the_new_id_is_in_the_log_before_its_owner_hears_it(self) -> None:
        world = GroupWorld()
        self.join_static(world)
        world.auto_commit = False
        token = world.join(instance="i")
        assert world.is_waiting(token)
        world.commit()
        assert world.joined(token).error_code == E.NONE

    def test_if_it_cannot_be_written_the_old_id_holds(self) -> None:
        world = GroupWorld()
        old = self.join_static(world)
        world.auto_commit = False
        token = world.join(instance="i", protocols=(("range", b"new"),), session_ms=SESSION_MS + 1)
        world.fail(E.NOT_ENOUGH_REPLICAS)
        assert world.joined(token).error_code == E.COORDINATOR_NOT_AVAILABLE
        assert world.heartbeat(old, 1, instance="i") is E.NONE
        member = world.group.members[old]
        assert (member.protocols, member.session_timeout_ms) == (RANGE, SESSION_MS)

    def test_restarted_twice_and_neither_written_ends_in_a_generation_that_is(self) -> None:
        world = GroupWorld()
        self.join_static(world)
        world.auto_commit = False
        first, second = world.join(instance="i"), world.join(instance="i")
        assert world.joined(first).error_code == E.FENCED_INSTANCE_ID
        world.fail(E.NOT_ENOUGH_REPLICAS)
        # What the second began with, the log has not got either.
        assert world.joined(second).generation_id == 2
        world.fail(E.NOT_ENOUGH_REPLICAS)
        world.auto_commit = True
        member_id = world.joined(second).member_id
        world.synced(world.sync(member_id, 2, {member_id: b"2:0"}, instance="i"))
        assert world.state() is GroupState.STABLE
        assert world.reloaded().group.static_members == world.group.static_members == {"i": member_id}

    def test_what_could_not_be_written_does_not_come_into_the_log_with_another_member(self) -> None:
        world = GroupWorld()
        tokens = [world.join(instance=instance) for instance in ("i", "j")]
        world.advance(2 * INITIAL_DELAY_MS)
        world.finish(tokens)
        world.auto_commit = False
        first, second = world.join(instance="i"), world.join(instance="j")
        world.fail(E.NOT_ENOUGH_REPLICAS)
        world.commit()
        assert world.joined(first).error_code == E.COORDINATOR_NOT_AVAILABLE
        # The log has the first one's new id, which nobody knows: all that is served is written anew.
        assert world.state() is GroupState.PREPARING_REBALANCE and world.is_waiting(second)
        world.auto_commit = True
        again = world.join(instance="i")
        world.finish([again, second])
        assert world.state() is GroupState.STABLE
        assert world.reloaded().group.static_members == world.group.static_members

    def test_a_rebalance_meanwhile_answers_it(self) -> None:
        world = GroupWorld()
        self.join_static(world)
        world.auto_commit = False
        restarted = world.join(instance="i")
        newcomer = world.join(version=3)
        assert world.joined(newcomer).generation_id == world.joined(restarted).generation_id == 2
        world.commit()
        assert world.state() is GroupState.COMPLETING_REBALANCE

    def test_a_change_of_protocol_means_a_rebalance(self) -> None:
        world = GroupWorld()
        token = world.join(instance="i", protocols=(("range", b""), ("sticky", b"")))
        world.advance(INITIAL_DELAY_MS)
        world.finish([token])
        token = world.join(instance="i", protocols=(("sticky", b""), ("range", b"")))
        assert world.joined(token).generation_id == 2

    def test_a_restart_while_completing_starts_over(self) -> None:
        world = GroupWorld()
        static = world.join(instance="i")
        world.advance(INITIAL_DELAY_MS)
        waiting = world.sync(world.joined(static).member_id, 1, instance="i", version=4)
        assert world.synced(waiting).error_code == E.NONE
        other = world.join(version=3)
        world.join(world.joined(static).member_id, instance="i")
        assert world.state() is GroupState.COMPLETING_REBALANCE
        syncing = world.sync(world.joined(other).member_id, 2, version=4, protocol_type=None, protocol_name=None)
        world.join(instance="i")
        assert world.synced(syncing).error_code == E.REBALANCE_IN_PROGRESS
        assert world.state() is GroupState.PREPARING_REBALANCE

    def test_whoever_waits_under_the_old_id_is_fenced(self) -> None:
        world = GroupWorld()
        first = world.join(instance="i")
        second = world.join(instance="i")
        assert world.joined(first).error_code == E.FENCED_INSTANCE_ID
        world.advance(INITIAL_DELAY_MS)
        assert world.joined(second).error_code == E.NONE

    def test_it_keeps_its_place_when_it_misses_a_rebalance(self) -> None:
        world = GroupWorld()
        static = self.join_static(world)
        token = world.join(version=3, session_ms=SESSION_MS * 100)
        # The session is longer than the rebalance, so the phase ends first.
        world.group.members[static].session_timeout_ms = REBALANCE_MS * 2
        assert world.heartbeat(static, 1, instance="i") is E.REBALANCE_IN_PROGRESS
        world.advance(REBALANCE_MS)
        response = world.joined(token)
        assert response.leader == response.member_id
        assert {member.group_instance_id for member in response.members} == {None, "i"}

    def test_nobody_rejoins_so_the_phase_waits_for_sessions(self) -> None:
        world = GroupWorld()
        static = self.join_static(world)
        newcomer = world.new_member_id()
        world.join(newcomer)
        world.group.members[static].session_timeout_ms = REBALANCE_MS * 3
        world.heartbeat(static, 1, instance="i")
        world.leave(newcomer)
        world.advance(REBALANCE_MS)
        assert world.state() is GroupState.PREPARING_REBALANCE
        world.advance(REBALANCE_MS * 2)
        assert world.state() is GroupState.EMPTY
