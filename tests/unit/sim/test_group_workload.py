"""The consumer group of a simulation: what it committed is asked for in the end, and groups can still be joined."""

import asyncio
from collections.abc import Iterator, Mapping

import pytest
from tests.unit.sim.watched import ORDERS, VALUES, World, watched

from tidelog.client.client import Client
from tidelog.client.group_member import GroupMember
from tidelog.client.groups import CommittedOffset, committed_offsets
from tidelog.core.ids import TopicPartition
from tidelog.sim.checks.liveness import Unsettled
from tidelog.sim.workloads import groups
from tidelog.sim.workloads.groups import GROUP, Group


@pytest.fixture
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def commits(world: World) -> Group:
    """A group that has read and committed everything, and is there no more."""
    group = Group(world.office)

    async def story() -> None:
        group.begin()
        await world.cluster.until(lambda: group._committed.get(ORDERS) == len(VALUES))
        await group.stop()

    world.cluster.run(story())
    return group


def test_commits_that_are_there_and_groups_that_can_be_joined(world: World) -> None:
    group = commits(world)
    world.cluster.run(group.check())
    assert world.failure() is None
    # One for each of the two partitions that commits are in.
    assert world.trace.counts["joined_late"] == 2


def test_a_commit_that_is_gone_in_the_end(world: World) -> None:
    group = commits(world)
    group._committed[ORDERS] += 1
    world.cluster.run(group.check())
    broken = world.failure()
    assert broken is not None
    assert broken.invariant == "GroupCommits"
    assert broken.what.startswith("the group committed 6 of orders-0, but now has 5")


def test_a_commit_that_is_gone_when_a_member_joins(world: World) -> None:
    group = Group(world.office)
    group._committed[ORDERS] = 1

    async def story() -> None:
        group.begin()
        await world.cluster.until(world.watch.failure.done)
        await group.stop()

    world.cluster.run(story())
    broken = world.failure()
    assert broken is not None
    assert broken.invariant == "GroupCommits"


def test_a_late_commit_that_is_not_what_was_committed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = commits(world)

    async def less(client: Client, name: str) -> Mapping[TopicPartition, CommittedOffset]:
        return await committed_offsets(client, name) if name == GROUP else {}

    monkeypatch.setattr(groups, "committed_offsets", less)
    world.cluster.run(group.check())
    broken = world.failure()
    assert broken is not None
    assert broken.invariant == "GroupCommits"
    assert broken.what.startswith("the group committed 1 of orders-0, but now has 0")


@pytest.mark.parametrize("step", ["join", "commit"])
def test_a_group_that_cannot_get_on(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(GroupMember, step, forever)
    with pytest.raises(Unsettled, match=f"no client could {step} the group late-"):
        world.cluster.run(Group(world.office).check())
