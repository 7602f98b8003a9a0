"""What a coordinator tells of its groups: each new generation and what led to it, and who was taken out and why."""

from collections.abc import Callable

import pytest
from tests.unit.coordinator.group_world import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, GroupWorld

from tidelog.coordinator.config import GroupCoordinatorConfig


def test_a_generation_is_told_of_with_what_led_to_it() -> None:
    world = GroupWorld()
    (first,) = world.stable()
    assert world.told == ["group g in generation 1 with 1 members: a member joined"]
    world.told.clear()
    world.join(version=3)
    world.join(first)
    assert world.told == ["group g in generation 2 with 2 members: a member joined"]


@pytest.mark.parametrize(
    ("go", "removed", "rebalanced"),
    [
        (lambda world, member: world.leave(member), "it left", "a member left"),
        (
            lambda world, member: world.advance(SESSION_MS),
            f"no heartbeat for {SESSION_MS} ms",
            "a member's session timed out",
        ),
    ],
)
def test_one_that_goes(go: Callable[[GroupWorld, str], object], removed: str, rebalanced: str) -> None:
    world = GroupWorld()
    (only,) = world.stable()
    world.told.clear()
    go(world, only)
    assert world.told == [
        f"group g lost member {only}: {removed}",
        f"group g in generation 2 with 0 members: {rebalanced}",
    ]


def test_one_that_does_not_join_again_in_time() -> None:
    world = GroupWorld()
    leader, follower = world.stable(2)
    world.told.clear()
    world.join(leader, session_ms=SESSION_MS)
    # It goes on with its heartbeats, and does not join.
    for _ in range(REBALANCE_MS // SESSION_MS + 1):
        world.heartbeat(follower, 1)
        world.advance(SESSION_MS - 1)
    assert world.told[:2] == [
        f"group g lost member {follower}: it did not rejoin in time",
        "group g in generation 2 with 1 members: a member rejoined",
    ]


def test_one_that_never_asks_for_its_assignment() -> None:
    world = GroupWorld()
    token = world.join(version=3)
    world.advance(INITIAL_DELAY_MS)
    member = world.joined(token).member_id
    for _ in range(REBALANCE_MS // SESSION_MS + 1):
        world.heartbeat(member, 1)
        world.advance(SESSION_MS - 1)
    assert f"group g lost member {member}: it never requested its assignment" in world.told


def test_one_too_many() -> None:
    world = GroupWorld(GroupCoordinatorConfig(group_max_size=2))
    world.stable(2)
    smaller = GroupWorld(GroupCoordinatorConfig(group_max_size=1), world.now_ms, log=list(world.log))
    leader, follower = smaller.group.members
    smaller.join(leader)
    smaller.join(follower)
    assert smaller.told == [
        f"group g lost member {follower}: the group is full",
        "group g in generation 2 with 1 members: the group exceeds group.max.size",
    ]
