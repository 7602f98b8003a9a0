"""Faults of several steps: each waits until the cluster has come to where the next one hurts.

What they do anybody could do who restarts processes, moves leaders and pulls cables; that it comes in this order, and
within milliseconds, is what a run of hours would wait for.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.metadata.image import PartitionRegistration
from tidelog.replication.isr import PendingExpand
from tidelog.replication.roles import Leader
from tidelog.sim.cluster import CLIENT_PORT, CONTROLLER_PORT, host_of
from tidelog.sim.faults.field import Applied, Field, Moment, Story
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.links import Cut, Delay
from tidelog.sim.machine import State
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED: Final = 0
LOOK_S: Final = 0.002
PATIENCE_S: Final = 2.0
SLOW: Final = Delay(0.02, 0.02)
"""So that a decision is seen before those whom it concerns have heard of it."""


class Race:
    """The steps of one fault: cuts that end with it, and waiting that ends in time."""

    def __init__(self, field: Field, rng: random.Random) -> None:
        self.field = field
        self.rng = rng
        self.moment = Moment()
        """When it has come to where it hurts."""
        self._cuts: list[Cut] = []

    def cut(self, cut: Cut) -> Cut:
        self._cuts.append(self.field.cluster.network.apply(cut))
        return cut

    def heal(self, cut: Cut) -> None:
        if cut in self._cuts:
            self._cuts.remove(cut)
            if cut in self.field.cluster.network.cuts:
                self.field.cluster.network.heal(cut)

    def heal_all(self) -> None:
        for cut in list(self._cuts):
            self.heal(cut)

    async def until(
        self, holds: Callable[[], object], patience_s: float = PATIENCE_S, *, look_s: float = LOOK_S
    ) -> bool:
        """Whether it came to hold."""
        loop = self.field.cluster.loop
        deadline_s = loop.time() + patience_s
        while not holds():
            if loop.time() >= deadline_s:
                return False
            await asyncio.sleep(look_s)
        return True

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(least_s, most_s))


# --- leaders that swing -----------------------------------------------------------------------------------------------


def leader_swings(field: Field, rng: random.Random) -> Applied | None:
    """Leadership goes to and fro while replicas do not hear each other, or one hears of it late: what each has written
    in its own epoch is cut when they meet again.
    """
    chosen = [
        (topic.name, index, partition)
        for topic, index, partition in field.partitions()
        if not topic.name.startswith("__")
        and partition.leader not in (NO_LEADER, *field.disturbed)
        and len(partition.isr) >= 2
        and is_written(field, TopicPartition(topic.name, index), partition.leader)
    ]
    if not chosen:
        return None
    topic, index, partition = rng.choice(chosen)
    first = partition.leader
    second = rng.choice([member for member in partition.isr if member != first])
    third = [member for member in partition.replicas if member not in (first, second, field.active_controller())]
    race = Race(field, rng)
    if third and rng.random() < 0.5:
        late = third[0]
        voters = field.hosts(voter for voter in field.voters() if voter != late)
        hushed, lasts_s = Cut.one_way(voters, [host_of(late)]).on_port(CONTROLLER_PORT), 1.0
    else:
        # What was sent before is still on its way when the new epoch begins.
        others = field.hosts(other for other in field.cluster.nodes if other != first)
        hushed, lasts_s = Cut.partition([[host_of(first)], others]).on_port(CLIENT_PORT), 0.03
    leaders = (second, first, second, first)[: rng.randint(2, 4)]
    race.cut(hushed)
    what = {"topic": topic, "partition": index, "leaders": [first, *leaders], "cut": hushed.name}
    story = _swing(race, topic, index, leaders, hushed, lasts_s)
    return field.tell_story(story, race.heal_all, race.moment, what=what)


def is_written(field: Field, partition: TopicPartition, leader: int) -> bool:
    node = field.cluster.nodes[leader].node
    found = None if node is None or node.broker is None else node.broker.replicas.get(partition)
    return found is not None and found.log.log_end_offset > 0


async def _swing(race: Race, topic: str, index: int, leaders: tuple[int, ...], hushed: Cut, lasts_s: float) -> None:
    for number, leader in enumerate(leaders):
        # Some at once, before clients have turned to the new leader; some when it has written for a while.
        await race.pause(0.0, race.rng.choice((0.02, 0.2, 0.8)))
        if not await _move(race, topic, index, leader):
            break
        if number == 1:
            race.moment.come()
            await race.pause(0.0, lasts_s)
            race.heal(hushed)
    race.heal_all()


async def _move(race: Race, topic: str, index: int, leader: int) -> bool:
    """The administrator's way to make a broker lead: it becomes the preferred replica, and is elected."""
    field = race.field

    def partition() -> PartitionRegistration | None:
        found = field.look().topic(topic)
        return None if found is None else found.partitions.get(index)

    before = partition()
    if before is None or leader not in before.isr or before.adding_replicas or before.removing_replicas:
        return False
    replicas = [leader, *(replica for replica in before.replicas if replica != leader)]
    part = ReassignablePartition(partition_index=index, replicas=replicas)
    topics = [ReassignableTopic(name=topic, partitions=[part])]
    field.ask_broker(leader, AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics), None)
    if not await race.until(lambda: (now := partition()) is None or list(now.replicas) == replicas):
        return False
    wanted = [TopicPartitions(topic=topic, partitions=[index])]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=5000)
    field.ask_broker(leader, request, None)
    await race.until(lambda: (now := partition()) is None or now.leader == leader)
    # Nobody leads a topic that was deleted meanwhile.
    now = partition()
    return now is not None and now.leader == leader


# --- replicas that are about to be taken in ---------------------------------------------------------------------------


def reboot_while_admitted(field: Field, rng: random.Random) -> Applied | None:
    """A replica loses power while the word of its leader that it has caught up is on its way to the controller; it is
    back, with what it had synced, before that arrives.
    """
    chosen = choose(field, rng)
    if chosen is None:
        return None
    leader, replica = chosen
    if not field.budget.may_lose(replica, field.look()):
        return None
    race = Race(field, rng)
    return begin(race, leader, replica, _reboot_while_admitted(race, leader, replica), race.heal_all)


def lost_answer(field: Field, rng: random.Random) -> Applied | None:
    """A leader's change of an ISR is committed, and its connections break before it hears of that: it asks again."""
    chosen = choose(field, rng)
    if chosen is None:
        return None
    leader, replica = chosen
    race = Race(field, rng)
    network = field.cluster.network

    def clean_up() -> None:
        race.heal_all()
        network.slow_down(host_of(leader), None)

    return begin(race, leader, replica, _lose_answer(race, leader, replica), clean_up)


def choose(field: Field, rng: random.Random) -> tuple[int, int] | None:
    """A leader and one of its followers, neither of them the active controller."""
    active = field.active_controller()
    pairs = sorted(
        {
            (partition.leader, replica)
            for _, _, partition in field.partitions()
            for replica in partition.replicas
            if active is not None and replica != partition.leader and active not in (partition.leader, replica)
        }
    )
    pairs = [pair for pair in pairs if all(node in field.brokers() and node not in field.disturbed for node in pair)]
    if not pairs:
        return None
    leader, replica = rng.choice(pairs)
    if field.state(leader) is not State.RUNNING or field.pick_to_kill(rng, [replica]) is None:
        return None
    return leader, replica


def begin(race: Race, leader: int, replica: int, story: Story, clean_up: Callable[[], None]) -> Applied:
    race.field.cluster.kill(replica)
    what = {"leader": leader, "replica": replica}
    return race.field.tell_story(story, clean_up, race.moment, what=what, nodes=(leader, replica))


async def _reboot_while_admitted(race: Race, leader: int, replica: int) -> None:
    field = race.field
    alone = Cut.isolate(host_of(leader)).on_port(CONTROLLER_PORT)
    if await comes_back(race, leader, replica, lambda: race.cut(alone)) and (
        await race.until(lambda: admits(field, leader, replica))
    ):
        race.moment.come()
        race.cut(_apart(leader, replica))
        epoch = _epoch_of(field, replica)
        if field.budget.may_lose(replica, field.look()):
            field.budget.lose(replica, field.image)
            field.cluster.power_cut(replica)
            for voter in field.voters():
                # A machine that is up again answers for connections that it knows nothing of.
                field.cluster.network.break_off(host_of(replica), host_of(voter))
        else:
            field.cluster.kill(replica)
        field.start(replica)
        await race.until(lambda: _epoch_of(field, replica) > epoch)
        race.heal(alone)
        await race.pause(0.0, 0.3)
    race.heal_all()


async def _lose_answer(race: Race, leader: int, replica: int) -> None:
    field, network, host = race.field, race.field.cluster.network, host_of(leader)

    def slow_down() -> None:
        network.slow_down(host, SLOW)

    if await comes_back(race, leader, replica, slow_down) and (
        await race.until(lambda: admits(field, leader, replica, committed=True))
    ):
        race.moment.come()
        for voter in field.voters():
            network.break_off(host, host_of(voter))
    network.slow_down(host, None)
    race.heal_all()


async def comes_back(race: Race, leader: int, replica: int, then: Callable[[], object]) -> bool:
    """The replica restarts, and so is in no ISR. What is to happen `then` happens when its leader knows that it is
    back, and before it fetches.
    """
    field = race.field
    apart, epoch = race.cut(_apart(leader, replica)), _epoch_of(field, replica)
    field.start(replica)

    def knows() -> bool:
        node = field.cluster.nodes[leader].node
        broker = None if node is None or node.broker is None else node.broker.replicas.context.brokers.get(replica)
        return broker is not None and broker.active and broker.epoch > epoch

    known = await race.until(knows)
    if known:
        then()
    race.heal(apart)
    return known


def _apart(one: int, other: int) -> Cut:
    return Cut.partition([[host_of(one)], [host_of(other)]]).on_port(CLIENT_PORT)


def _epoch_of(field: Field, broker_id: int) -> int:
    """Under which the broker is in service; -1: it is not."""
    broker = field.look().broker(broker_id)
    return -1 if broker is None or broker.fenced else broker.epoch


def admits(field: Field, leader: int, replica: int, *, committed: bool = False) -> bool:
    """Whether the leader of some partition waits for the word that the replica is in the ISR; which may be given."""
    node = field.cluster.nodes[leader].node
    image = field.look()
    for partition in () if node is None or node.broker is None else node.broker.replicas:
        role = partition.role
        if not isinstance(role, Leader) or not isinstance(role.isr_state, PendingExpand):
            continue
        registration = image.partition(partition.topic_partition)
        if role.isr_state.newcomer == replica and (
            not committed or (registration is not None and replica in registration.isr)
        ):
            return True
    return False


KINDS: Final = (
    FaultKind(name="leader_swings", profile="control", strike=leader_swings, weight=4.0, has_steps=True),
    FaultKind(
        name="reboot_while_admitted", profile="control", strike=reboot_while_admitted, weight=2.5, has_steps=True
    ),
    FaultKind(name="lost_answer", profile="control", strike=lost_answer, weight=2.5, has_steps=True),
)
