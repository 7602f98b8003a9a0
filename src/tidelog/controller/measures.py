"""How the cluster stands as a controller knows it, in Kafka's gauges (O3): from what is committed, so on each alike."""

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


def measure(image: ClusterImage, counters: ElectionCounters, *, active: bool) -> ControllerMeasures:
    registered = [each for topic in image.topics_by_id.values() for each in topic.partitions.values()]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    return ControllerMeasures(
        active=active,
        offline_partitions=sum(each.leader == NO_LEADER for each in registered),
        preferred_replica_imbalance=sum(each.leader != each.preferred_leader for each in registered),
        topics=len(image.topics_by_id),
        partitions=len(registered),
        active_brokers=len(image.brokers) - fenced,
        fenced_brokers=fenced,
        unclean_leader_elections=counters.unclean_leader_elections,
    )
