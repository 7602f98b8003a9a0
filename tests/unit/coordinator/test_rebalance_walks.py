"""Whole rebalances, step by step: what members of a group live through."""

from tests.unit.coordinator.group_world import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
    subscription,
)

from tidelog.coordinator.group import GroupState
from tidelog.wire.errors import ErrorCode as E


def keep_alive(world: GroupWorld, members: list[str], generation: int, duration_ms: int) -> None:
    """Heartbeats every three seconds, as a consumer sends them."""
    for _ in range(duration_ms // 3_000):
        world.advance(3_000)
        for member in members:
            world.heartbeat(member, generation)


def test_three_join_one_leaves_one_crashes() -> None:
    world = GroupWorld()
    one, two, three = world.stable(3)
    assert world.group.generation_id == 1

    world.leave(two)
    assert world.state() is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(one, 1) is world.heartbeat(three, 1) is E.REBALANCE_IN_PROGRESS
    tokens = [world.join(three), world.join(one)]
    assert set(world.finish(tokens)) == {one, three}
    assert world.group.generation_id == 2

    keep_alive(world, [one], 2, SESSION_MS + 3_000)
    assert world.state() is GroupState.PREPARING_REBALANCE, "three was silent for too long"
    assert world.heartbeat(three, 2) is E.UNKNOWN_MEMBER_ID
    assert set(world.finish([world.join(one)])) == {one}
    assert world.group.generation_id == 3


def test_the_leader_crashes_during_the_join_phase() -> None:
    world = GroupWorld()
    leader, second, third = world.stable(3)
    newcomer = world.join(version=3)
    tokens = [newcomer, world.join(second), world.join(third)]
    world.advance(SESSION_MS)
    responses = [world.joined(token) for token in tokens]
    assert {response.leader for response in responses} == {second}
    assert leader not in world.group.members
    world.finish(tokens)
    assert world.state() is GroupState.STABLE


def test_the_leader_is_alive_but_does_not_rejoin_in_time() -> None:
    world = GroupWorld()
    leader, second = world.stable(2)
    token = world.join(second, protocols=(("range", subscription("u")),))
    keep_alive(world, [leader], 1, REBALANCE_MS)
    assert world.joined(token).leader == second
    assert world.heartbeat(leader, 1) is E.UNKNOWN_MEMBER_ID


def test_the_leader_crashes_before_it_has_assigned() -> None:
    world = GroupWorld()
    leader, second = world.stable(2)
    tokens = [world.join(leader), world.join(second)]
    syncing = world.sync(second, 2)
    world.advance(SESSION_MS)
    assert world.synced(syncing).error_code == E.REBALANCE_IN_PROGRESS
    assert [world.joined(token).generation_id for token in tokens] == [2, 2]
    token = world.join(second)
    assert set(world.finish([token])) == {second}
    assert world.group.generation_id == 3


def test_everybody_crashes_and_the_group_starts_again() -> None:
    world = GroupWorld()
    members = world.stable(2)
    world.commit_offset(5, member_id=members[0], generation=1)
    # The first silence starts a rebalance, the second empties the group.
    world.advance(SESSION_MS + REBALANCE_MS)
    assert world.state() is GroupState.EMPTY
    assert world.offsets() == {("t", 0): 5}
    world.stable(2)
    assert world.group.generation_id == 3
    assert world.offsets() == {("t", 0): 5}


def test_two_rolling_restarts_of_static_members_move_nothing() -> None:
    world = GroupWorld()
    instances = ["a", "b", "c"]
    tokens = [world.join(instance=instance) for instance in instances]
    world.advance(INITIAL_DELAY_MS * 2)
    world.finish(tokens)
    assignments = {i: world.group.members[world.group.static_members[i]].assignment for i in instances}
    for _ in range(2):
        for instance in instances:
            response = world.joined(world.join(instance=instance))
            assert response.error_code == E.NONE
            synced = world.synced(world.sync(response.member_id, 1, instance=instance))
            assert synced.assignment == assignments[instance]
    assert (world.state(), world.group.generation_id) == (GroupState.STABLE, 1)


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    world = GroupWorld()
    tokens = [world.join(instance=instance) for instance in ("a", "b")]
    world.advance(INITIAL_DELAY_MS * 2)
    world.finish(tokens)
    alive = world.joined(tokens[0]).member_id
    for _ in range(4):
        world.advance(3_000)
        world.heartbeat(alive, 1, instance="a")
    assert set(world.group.static_members) == {"a"}
    assert world.state() is GroupState.PREPARING_REBALANCE


def test_a_cooperative_rebalance_is_two_generations() -> None:
    """The coordinator only carries bytes; what it must keep is that each generation has its own assignment."""
    world = GroupWorld()
    cooperative = (("cooperative-sticky", subscription("t")),)
    (first,) = world.stable(protocols=cooperative)
    second = world.new_member_id(protocols=cooperative)
    owning = (("cooperative-sticky", subscription("t") + b"owned"),)
    tokens = [world.join(second, protocols=cooperative), world.join(first, protocols=owning)]
    world.finish(tokens)
    assert world.group.generation_id == 2
    # The first has revoked what it gives away and joins again; the second need only follow.
    token = world.join(first, protocols=(("cooperative-sticky", subscription("t") + b"less"),))
    assert world.heartbeat(second, 2) is E.REBALANCE_IN_PROGRESS
    assert world.commit_error(world.commit_offset(9, member_id=second, generation=2)) is E.NONE
    world.finish([token, world.join(second, protocols=cooperative)])
    assert (world.state(), world.group.generation_id) == (GroupState.STABLE, 3)
    assert world.group.members[second].assignment == b"3:1"


def test_a_coordinator_fails_over_in_the_middle_of_a_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.join(leader)
    after = world.reloaded()
    assert (after.state(), after.group.generation_id) == (GroupState.STABLE, 1)
    assert after.heartbeat(follower, 1) is E.NONE
    tokens = [after.join(leader), after.join(follower)]
    after.finish(tokens)
    assert after.group.generation_id == 2
