"""Decisions that are cut short: a controller that dies around the commit of a change, a replica that hears of two
changes as if they were one. Faults of several steps, as in `races`.
"""

import random
from collections.abc import Callable
from typing import Final

from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import PartitionRegistration
from tidelog.sim.cluster import CONTROLLER_PORT, host_of
from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.faults.races import SLOW, Race, admits, begin, choose, comes_back
from tidelog.sim.links import Cut
from tidelog.sim.machine import State
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


def failover_before_commit(field: Field, rng: random.Random) -> Applied | None:
    """The active controller dies when it has written down that a replica is to join an ISR, and before that is
    committed.
    """
    return _failover(field, rng, lambda active, leader, replica: _is_decided(field, active, replica))


def failover_after_commit(field: Field, rng: random.Random) -> Applied | None:
    """The active controller dies when it is committed, and before the leader that asked for it hears of that."""
    return _failover(field, rng, lambda active, leader, replica: admits(field, leader, replica, committed=True))


# Of the active controller, a leader and the replica that it asks for.
Reached = Callable[[int, int, int], bool]


def _failover(field: Field, rng: random.Random, reached: Reached) -> Applied | None:
    chosen, active = choose(field, rng), field.active_controller()
    if chosen is None or active is None:
        return None
    leader, replica = chosen
    race = Race(field, rng)

    def clean_up() -> None:
        race.heal_all()
        field.cluster.network.slow_down(host_of(active), None)

    def slow_down() -> None:
        """A commit takes as long as the way to the other voters, and the answer as long as the way to the leader."""
        field.cluster.network.slow_down(host_of(active), SLOW)

    async def story() -> None:
        if await comes_back(race, leader, replica, slow_down):
            await race.until(lambda: field.active_controller() != active or reached(active, leader, replica))
            if field.active_controller() == active and reached(active, leader, replica) and field.can_spare(active):
                race.moment.come(node=active)
                field.cluster.kill(active)
        clean_up()

    return begin(race, leader, replica, story(), clean_up)


def _is_decided(field: Field, active: int, replica: int) -> bool:
    """Whether the controller has appended that the replica joins an ISR, and not committed it."""
    node = field.cluster.nodes[active].node
    if node is None or node.control is None:
        return False
    committed = node.control.image
    for prepared in node.control.publisher._prepared:
        for changed in prepared.delta.topics.values():
            before = committed.topics_by_id.get(changed.after.topic_id)
            for index, after in changed.partitions.items():
                known = None if before is None else before.partitions.get(index)
                if known is not None and replica in after.isr and replica not in known.isr:
                    return True
    return False


def removed_and_readded(field: Field, rng: random.Random) -> Applied | None:
    """A replica is taken out of a partition and put back, and hears of both at once."""
    chosen = [
        (topic.name, index, partition, victim)
        for topic, index, partition in field.partitions()
        if not topic.name.startswith("__") and partition.leader != NO_LEADER and len(partition.replicas) >= 3
        for victim in partition.replicas
        if victim not in (partition.leader, field.active_controller(), *field.disturbed)
        and field.state(victim) is State.RUNNING
        and not partition.adding_replicas
        and not partition.removing_replicas
    ]
    if not chosen:
        return None
    topic, index, partition, victim = rng.choice(chosen)
    race, before = Race(field, rng), list(partition.replicas)
    without = [replica for replica in before if replica != victim]
    sources = field.hosts(voter for voter in field.voters() if voter != victim)
    race.cut(Cut.one_way(sources, [host_of(victim)]).on_port(CONTROLLER_PORT))

    def now() -> PartitionRegistration | None:
        found = field.look().topic(topic)
        return None if found is None else found.partitions.get(index)

    async def reaches(replicas: list[int]) -> bool:
        part = ReassignablePartition(partition_index=index, replicas=replicas)
        topics = [ReassignableTopic(name=topic, partitions=[part])]
        field.ask_broker(partition.leader, AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics), None)
        return await race.until(lambda: (found := now()) is None or list(found.replicas) == replicas)

    async def story() -> None:
        out = await reaches(without)
        back = await reaches(before)
        if out and back and now() is not None and not _knows(field, victim):
            race.moment.come()
        race.heal_all()

    def _knows(field: Field, node_id: int) -> bool:
        """Whether it has heard of the first change by now."""
        node = field.cluster.nodes[node_id].node
        known = None if node is None or node.control is None else node.control.image.topic(topic)
        seen = None if known is None else known.partitions.get(index)
        return seen is None or seen.partition_epoch > partition.partition_epoch

    what = {"topic": topic, "partition": index, "replica": victim}
    return field.tell_story(story(), race.heal_all, race.moment, what=what)


KINDS: Final = (
    FaultKind(name="failover_before_commit", profile="control", strike=failover_before_commit, has_steps=True),
    FaultKind(
        name="failover_after_commit", profile="control", strike=failover_after_commit, weight=1.5, has_steps=True
    ),
    FaultKind(name="removed_and_readded", profile="control", strike=removed_and_readded, has_steps=True),
)
