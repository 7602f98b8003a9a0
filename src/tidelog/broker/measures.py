"""What a node measures, under the names by which Prometheus knows Kafka's gauges and counters (O3).

A name is Kafka's JMX bean in small letters, `kafka_<group>_<type>_<name>`; a meter `…PerSec` becomes a counter
`…_total`. Serving them is for others: here is only what is true at the moment somebody asks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tidelog.controller.measures import ControllerMeasures
from tidelog.replication.measures import PartitionMeasures, ReplicationMeasures


@dataclass(frozen=True, slots=True)
class Sample:
    value: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Counters only grow while a node runs; their names end in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMeasures:
    """A part is None on a node without that role."""

    broker: ReplicationMeasures | None
    controller: ControllerMeasures | None

    def metrics(self) -> list[Metric]:
        found: list[Metric] = []
        if self.broker is not None:
            found += _of_broker(self.broker)
        if self.controller is not None:
            found += _of_controller(self.controller)
        return found


_PARTITION: Final[tuple[tuple[str, str, Callable[[PartitionMeasures], int]], ...]] = (
    ("underreplicated", "1 if replicas are missing in the ISR.", lambda each: int(each.under_replicated)),
    ("underminisr", "1 if the ISR is below min.insync.replicas.", lambda each: int(each.under_min_isr)),
    ("atminisr", "1 if the ISR is just min.insync.replicas.", lambda each: int(each.at_min_isr)),
    ("insyncreplicascount", "Replicas in sync, as the leader counts them.", lambda each: each.in_sync_replicas),
    ("replicascount", "Replicas assigned, as the leader counts them.", lambda each: each.replicas),
    ("laststableoffsetlag", "Records behind an open transaction.", lambda each: each.last_stable_offset_lag),
)


def _of_broker(measures: ReplicationMeasures) -> Iterable[Metric]:
    manager = "kafka_server_replicamanager_"
    yield _gauge(f"{manager}partitioncount", "Replicas on this broker.", len(measures.partitions))
    yield _gauge(f"{manager}leadercount", "Partitions that this broker leads.", measures.leaders)
    yield _gauge(f"{manager}offlinereplicacount", "Replicas without a directory.", measures.offline_replicas)
    yield _gauge(
        f"{manager}underreplicatedpartitions",
        "Partitions led here with replicas out of sync.",
        measures.under_replicated_partitions,
    )
    yield _gauge(
        f"{manager}underminisrpartitioncount",
        "Partitions led here that refuse acks=all.",
        measures.under_min_isr_partitions,
    )
    yield _gauge(
        f"{manager}atminisrpartitioncount",
        "Partitions led here that the next loss makes refuse acks=all.",
        measures.at_min_isr_partitions,
    )
    yield _counter(f"{manager}isrexpands_total", "Times that an ISR led here has grown.", measures.isr_expands)
    yield _counter(f"{manager}isrshrinks_total", "Times that an ISR led here has shrunk.", measures.isr_shrinks)
    yield _counter(
        f"{manager}failedisrupdates_total", "ISR changes that the controller refused.", measures.failed_isr_updates
    )
    yield _gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Committed records that the furthest behind replica on this broker lacks.",
        measures.max_lag,
    )
    for name, words, value in _PARTITION:
        yield Metric(
            name=f"kafka_cluster_partition_{name}",
            kind="gauge",
            help=words,
            samples=tuple(
                Sample(value(each), {"topic": each.topic_partition.topic, "partition": str(each.topic_partition[1])})
                for each in measures.partitions
            ),
        )


def _of_controller(measures: ControllerMeasures) -> Iterable[Metric]:
    controller = "kafka_controller_kafkacontroller_"
    yield _gauge(f"{controller}activecontrollercount", "1 on the node that decides.", int(measures.active))
    yield _gauge(f"{controller}offlinepartitionscount", "Partitions without a leader.", measures.offline_partitions)
    yield _gauge(
        f"{controller}preferredreplicaimbalancecount",
        "Partitions not led by their first replica.",
        measures.preferred_replica_imbalance,
    )
    yield _gauge(f"{controller}globaltopiccount", "Topics of the cluster.", measures.topics)
    yield _gauge(f"{controller}globalpartitioncount", "Partitions of the cluster.", measures.partitions)
    yield _gauge(f"{controller}activebrokercount", "Brokers that serve.", measures.active_brokers)
    yield _gauge(f"{controller}fencedbrokercount", "Brokers that are fenced.", measures.fenced_brokers)
    yield _counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Elections that may have lost acknowledged records.",
        measures.unclean_leader_elections,
    )


def _gauge(name: str, words: str, value: int) -> Metric:
    return Metric(name=name, kind="gauge", help=words, samples=(Sample(value),))


def _counter(name: str, words: str, value: int) -> Metric:
    return Metric(name=name, kind="counter", help=words, samples=(Sample(value),))
