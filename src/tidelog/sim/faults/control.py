"""Faults of whoever decides: controllers that change, decisions that come late, leaders that were deposed."""

import random
from itertools import permutations
from typing import Final

from tidelog.sim.cluster import CONTROLLER_PORT, host_of
from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.links import Cut
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC_RESOURCE: Final = 2
SET: Final = 0
PREFERRED: Final = 0
UNCLEAN: Final = 1


def failover(field: Field, rng: random.Random) -> Applied | None:
    """The active controller dies, whatever it is just committing."""
    active = field.active_controller()
    if active is None or field.pick_to_kill(rng, [active]) is None:
        return None
    field.cluster.kill(active)
    return field.down(active, rng.uniform(0.05, 6.0))


def zombie_controller(field: Field, rng: random.Random) -> Applied | None:
    """The active controller stands still or hears no other controller, long enough for another to be elected."""
    active = field.active_controller()
    if active is None or active in field.disturbed:
        return None
    lasts_s = rng.uniform(2.5, 8.0)
    if rng.random() < 0.5:
        return field.cut(Cut.isolate(host_of(active)).on_port(CONTROLLER_PORT), [active], lasts_s)
    loop = field.cluster.machine(active).ports.loop
    loop.pause()
    return Applied(what={"node": active, "paused": True}, nodes=(active,), lasts_s=lasts_s, end=loop.resume)


def zombie_leader(field: Field, rng: random.Random) -> Applied | None:
    """A leader that clients reach and no other node does."""
    leaders = sorted({partition.leader for _, _, partition in field.partitions() if partition.leader >= 0})
    node_id = field.pick(rng, leaders)
    if node_id is None:
        return None
    others = field.hosts(other for other in field.cluster.nodes if other != node_id)
    return field.cut(Cut.partition([field.hosts([node_id]), others]), [node_id], rng.uniform(1.0, 14.0))


def late_metadata(field: Field, rng: random.Random) -> Applied | None:
    """What the controllers decide reaches one broker late, and then all at once."""
    brokers = field.brokers()
    node_id = rng.choice(brokers)
    sources = field.hosts(voter for voter in field.voters() if voter != node_id)
    if not sources:
        return None
    return field.cut(Cut.one_way(sources, [host_of(node_id)]).on_port(CONTROLLER_PORT), (), rng.uniform(0.2, 4.0))


def elect_preferred(field: Field, rng: random.Random) -> Applied | None:
    """Leadership goes back to the preferred replicas, with no writes between if nobody writes. It strikes if
    anybody is elected.
    """
    accepted = Moment()
    field.ask(rng, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=5000), accepted)
    return Applied(what={}, moment=accepted)


def min_isr(field: Field, rng: random.Random) -> Applied | None:
    """A topic asks for more replicas in sync for a while; never for fewer than before, which would change what an
    acknowledgement had promised.
    """
    chosen = [(topic, p) for topic, _, p in field.partitions() if not topic.name.startswith("__")]
    if not chosen:
        return None
    topic, partition = rng.choice(chosen)
    now = field.budget.min_isr(field.image, topic)
    if now >= len(partition.replicas):
        return None

    accepted = Moment()

    def change(value: int, accepted: Moment | None = None) -> None:
        field.ask(rng, _set_config(topic.name, "min.insync.replicas", str(value)), accepted)

    change(now + 1, accepted)
    return Applied(
        what={"topic": topic.name, "min_isr": now + 1},
        lasts_s=rng.uniform(1.0, 8.0),
        end=lambda: change(now),
        moment=accepted,
    )


def unclean_election(field: Field, rng: random.Random) -> Applied | None:
    """An administrator wants a topic back at any price: whoever is there may lead, for a while."""
    names = sorted({topic.name for topic, _, _ in field.partitions() if not topic.name.startswith("__")})
    if not names:
        return None
    name = rng.choice(names)

    accepted = Moment()

    def allow(value: str, accepted: Moment | None = None) -> None:
        field.ask(rng, _set_config(name, "unclean.leader.election.enable", value), accepted)

    allow("true", accepted)
    field.ask(rng, ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None, timeout_ms=5000))
    return Applied(what={"topic": name}, lasts_s=rng.uniform(0.5, 8.0), end=lambda: allow("false"), moment=accepted)


def _set_config(topic: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=key, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def reassign(field: Field, rng: random.Random) -> Applied | None:
    """A partition's replicas are changed, and back, perhaps before the change is complete."""
    chosen = [(topic, index, p) for topic, index, p in field.partitions() if not topic.name.startswith("__")]
    if not chosen:
        return None
    topic, index, partition = rng.choice(chosen)
    before = list(partition.replicas)
    spare = [broker for broker in field.brokers() if broker not in before]
    if partition.adding_replicas or partition.removing_replicas:
        return None
    after = list(before)
    if spare:
        after[rng.randrange(len(after))] = rng.choice(spare)
    else:
        # Another order than there is: the same one would be a fault that does nothing.
        orders = [list(order) for order in permutations(before) if list(order) != before]
        if not orders:
            return None
        after = rng.choice(orders)

    accepted = Moment()

    def move(replicas: list[int], accepted: Moment | None = None) -> None:
        part = ReassignablePartition(partition_index=index, replicas=replicas)
        topics = [ReassignableTopic(name=topic.name, partitions=[part])]
        field.ask(rng, AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics), accepted)

    move(after, accepted)
    return Applied(
        what={"topic": topic.name, "partition": index, "from": before, "to": after},
        lasts_s=rng.choice((0.01, 0.5, 5.0)) * rng.random(),
        end=lambda: move(before),
        moment=accepted,
    )


KINDS: Final = (
    FaultKind(name="failover", profile="control", strike=failover),
    FaultKind(name="zombie_controller", profile="control", strike=zombie_controller),
    FaultKind(name="zombie_leader", profile="control", strike=zombie_leader),
    FaultKind(name="late_metadata", profile="control", strike=late_metadata),
    FaultKind(name="elect_preferred", profile="control", strike=elect_preferred),
    FaultKind(name="min_isr", profile="control", strike=min_isr, weight=0.5),
    FaultKind(name="unclean_election", profile="control", strike=unclean_election, weight=0.2),
    FaultKind(name="reassign", profile="control", strike=reassign, weight=0.7),
)
