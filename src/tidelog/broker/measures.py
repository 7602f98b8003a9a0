"""What a node measures, under the names by which Prometheus knows Kafka's gauges and counters (O3).

A name is Kafka's JMX bean in small letters, `kafka_<group>_<type>_<name>`; a meter `…PerSec` becomes a counter
`…_total`. Serving them is for `metrics_server`: here is only what is true at the moment somebody asks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.broker.traffic import Traffic
from tidelog.controller.measures import ControllerMeasures
from tidelog.core.exposition import Metric, Sample, counter, gauge
from tidelog.replication.measures import PartitionMeasures, ReplicationMeasures


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMeasures:
    replication: ReplicationMeasures
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMeasures:
    """A part is None on a node without that role, and before it has started."""

    broker: BrokerMeasures | None
    controller: ControllerMeasures | None

    def metrics(self) -> Iterator[Metric]:
        if self.broker is not None:
            yield from _of_replication(self.broker.replication)
            yield from _of_traffic(self.broker.traffic)
            yield from _of_partitions(self.broker.replication.partitions)
        if self.controller is not None:
            yield from _of_controller(self.controller)


_PARTITION: Final[tuple[tuple[str, str, Callable[[PartitionMeasures], int]], ...]] = (
    ("cluster_partition_underreplicated", "1 if replicas are missing in the ISR.", lambda each: each.under_replicated),
    ("cluster_partition_underminisr", "1 if the ISR is below min.insync.replicas.", lambda each: each.under_min_isr),
    ("cluster_partition_atminisr", "1 if the ISR is exactly min.insync.replicas.", lambda each: each.at_min_isr),
    ("cluster_partition_insyncreplicascount", "Replicas in sync.", lambda each: each.in_sync_replicas),
    ("cluster_partition_replicascount", "Replicas assigned.", lambda each: each.replicas),
    (
        "cluster_partition_laststableoffsetlag",
        "Records behind an open transaction.",
        lambda each: each.last_stable_offset_lag,
    ),
    ("log_log_logstartoffset", "The first offset of the log.", lambda each: each.log_start_offset),
    ("log_log_logendoffset", "The log end offset: the offset of the next record.", lambda each: each.log_end_offset),
    ("log_log_size", "Bytes of the log's segments.", lambda each: each.size_bytes),
)


@dataclass(frozen=True, slots=True)
class _Samples:
    """One number of every partition, read as it is written down."""

    partitions: Sequence[PartitionMeasures]
    value: Callable[[PartitionMeasures], int]

    def __iter__(self) -> Iterator[Sample]:
        for each in self.partitions:
            topic, index = each.topic_partition
            yield Sample(int(self.value(each)), {"topic": topic, "partition": str(index)})


def _of_replication(measures: ReplicationMeasures) -> Iterator[Metric]:
    manager = "kafka_server_replicamanager_"
    yield gauge(f"{manager}partitioncount", "Replicas on this broker.", measures.replicas)
    yield gauge(f"{manager}leadercount", "Partitions that this broker leads.", measures.leaders)
    yield gauge(f"{manager}offlinereplicacount", "Replicas without a directory.", measures.offline_replicas)
    yield gauge(
        f"{manager}underreplicatedpartitions",
        "Partitions led here with replicas out of sync.",
        measures.under_replicated_partitions,
    )
    yield gauge(
        f"{manager}underminisrpartitioncount",
        "Partitions led here with an ISR below min.insync.replicas; they refuse acks=all.",
        measures.under_min_isr_partitions,
    )
    yield gauge(
        f"{manager}atminisrpartitioncount",
        "Partitions led here with an ISR of exactly min.insync.replicas.",
        measures.at_min_isr_partitions,
    )
    yield counter(f"{manager}isrexpands_total", "Times that an ISR led here has grown.", measures.isr_expands)
    yield counter(f"{manager}isrshrinks_total", "Times that an ISR led here has shrunk.", measures.isr_shrinks)
    yield counter(
        f"{manager}failedisrupdates_total", "ISR changes that the controller refused.", measures.failed_isr_updates
    )
    yield gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "The largest number of committed records that a replica on this broker lacks.",
        measures.max_lag,
    )
    yield gauge(
        "tidelog_partitions_without_series",
        "Healthy partitions led here that have no series of their own, to bound the output.",
        measures.leaders - len(measures.partitions),
    )


def _of_traffic(traffic: Traffic) -> Iterator[Metric]:
    topics = "kafka_server_brokertopicmetrics_"
    yield counter(f"{topics}messagesin_total", "Records that this broker appended as a leader.", traffic.messages_in)
    yield counter(f"{topics}bytesin_total", "Bytes of batches that this broker appended as a leader.", traffic.bytes_in)
    yield counter(f"{topics}bytesout_total", "Bytes of batches that this broker sent to consumers.", traffic.bytes_out)


def _of_partitions(partitions: Sequence[PartitionMeasures]) -> Iterator[Metric]:
    for name, words, value in _PARTITION:
        yield Metric(name=f"kafka_{name}", kind="gauge", help=words, samples=_Samples(partitions, value))


def _of_controller(measures: ControllerMeasures) -> Iterator[Metric]:
    controller = "kafka_controller_kafkacontroller_"
    yield gauge(f"{controller}activecontrollercount", "1 on the active controller.", int(measures.active))
    yield gauge(f"{controller}offlinepartitionscount", "Partitions without a leader.", measures.offline_partitions)
    yield gauge(
        f"{controller}preferredreplicaimbalancecount",
        "Partitions not led by their first replica.",
        measures.preferred_replica_imbalance,
    )
    yield gauge(f"{controller}globaltopiccount", "Topics of the cluster.", measures.topics)
    yield gauge(f"{controller}globalpartitioncount", "Partitions of the cluster.", measures.partitions)
    yield gauge(
        f"{controller}activebrokercount", "Brokers that are registered and not fenced.", measures.active_brokers
    )
    yield gauge(f"{controller}fencedbrokercount", "Brokers that are fenced.", measures.fenced_brokers)
    yield counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Elections that may have lost acknowledged records.",
        measures.unclean_leader_elections,
    )
