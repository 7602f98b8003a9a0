"""How the cluster stands as a controller knows it, in Kafka's gauges (O3): from what is committed, so on each alike."""

from collections.abc import Generator
from dataclasses import dataclass

from tidelog.controller.counters import ElectionCounters
from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import ClusterImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMeasures:
    """`kafka.controller:type=KafkaController` and `ControllerStats`."""

    active: bool
    offline_partitions: int
    preferred_replica_imbalance: int
    topics: int
    partitions: int
    active_brokers: int
    fenced_brokers: int
    unclean_leader_elections: int


def measure_stepwise(
    image: ClusterImage, counters: ElectionCounters, *, active: bool
) -> Generator[None, None, ControllerMeasures]:
    """A partition at a time: a cluster may have a hundred thousand, and others want their turn."""
    partitions = offline = imbalanced = 0
    for topic in image.topics_by_id.values():
        for each in topic.partitions.values():
            partitions += 1
            offline += each.leader == NO_LEADER
            imbalanced += each.leader != each.preferred_leader
            yield
    fenced = sum(broker.fenced for broker in image.brokers.values())
    return ControllerMeasures(
        active=active,
        offline_partitions=offline,
        preferred_replica_imbalance=imbalanced,
        topics=len(image.topics_by_id),
        partitions=partitions,
        active_brokers=len(image.brokers) - fenced,
        fenced_brokers=fenced,
        unclean_leader_elections=counters.unclean_leader_elections,
    )
