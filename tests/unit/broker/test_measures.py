"""The gauges and counters of three nodes while brokers come and go (O3), under the names that alert rules use."""

from collections import defaultdict

import pytest
from tests.unit.broker.test_replication import TOPIC, isr, leader, make_topic, write
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.broker.measures import NodeMeasures
from tidelog.broker.slices import in_slices
from tidelog.core.exposition import Metric
from tidelog.sim.cluster import SimCluster
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

# As the alert rules for Kafka's replication have them.
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
ISR_SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
MAX_LAG = "kafka_server_replicafetchermanager_maxlag"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"
# And Kafka's others.
ISR_EXPANDS = "kafka_server_replicamanager_isrexpands_total"
UNDER_MIN_ISR = "kafka_server_replicamanager_underminisrpartitioncount"
AT_MIN_ISR = "kafka_server_replicamanager_atminisrpartitioncount"
ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
NOT_NAMED = "tidelog_partitions_without_series"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


def metrics(cluster: SimCluster, node: int) -> list[Metric]:
    steps = cluster.node(node).measure_stepwise()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            measures: NodeMeasures = end.value
            return list(measures.metrics())


def measured(cluster: SimCluster) -> dict[str, float]:
    """Summed over the running nodes, as a query over a cluster does; of each name without labels."""
    total: defaultdict[str, float] = defaultdict(float)
    for node in running(cluster):
        for metric in metrics(cluster, node):
            total[metric.name] += sum(sample.value for sample in metric.samples)
    return dict(total)


def running(cluster: SimCluster) -> list[int]:
    return [node for node in cluster.nodes if cluster.is_running(node)]


def of_partition(cluster: SimCluster, node: int) -> dict[str, float]:
    labels = {"topic": TOPIC.topic, "partition": "0"}
    return {
        metric.name.removeprefix("kafka_cluster_partition_"): sample.value
        for metric in metrics(cluster, node)
        for sample in metric.samples
        if sample.labels == labels and metric.name.startswith("kafka_cluster_partition_")
    }


@pytest.mark.rule("O3")
def test_a_killed_broker_moves_the_numbers_and_its_return_moves_them_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1), min_insync_replicas="2")
        await write(cluster, b"value")
        before = measured(cluster)
        assert (before[UNDER_REPLICATED], before[UNDER_MIN_ISR], before[AT_MIN_ISR], before[MAX_LAG]) == (0, 0, 0, 0)
        # Every controller counts what is offline and unclean; only one decides.
        assert (before[ACTIVE], before[OFFLINE], before[UNCLEAN]) == (1, 0, 0)
        at = leader(cluster)
        assert at is not None
        healthy = {"underreplicated": 0, "underminisr": 0, "atminisr": 0, "insyncreplicascount": 3, "replicascount": 3}
        assert of_partition(cluster, at) == healthy | {"laststableoffsetlag": 0}
        gone, other = (node for node in (1, 2, 3) if node != at)
        # Only who leads measures: a sum over brokers counts each partition once.
        assert of_partition(cluster, gone) == {}
        assert (before[MESSAGES_IN], before[BYTES_IN] > 0) == (1, True)

        cluster.kill(gone)
        await cluster.until(lambda: isr(cluster, at) == {at, other})
        assert of_partition(cluster, at) == {
            "underreplicated": 1,
            "underminisr": 0,
            "atminisr": 1,
            "insyncreplicascount": 2,
            "replicascount": 3,
            "laststableoffsetlag": 0,
        }
        now = measured(cluster)
        assert (now[UNDER_REPLICATED], now[UNDER_MIN_ISR], now[AT_MIN_ISR]) == (1, 0, 1)
        assert (now[ISR_SHRINKS] - before[ISR_SHRINKS], now[OFFLINE], now[ACTIVE]) == (1, 0, 1)

        await cluster.start(gone)
        await cluster.until(lambda: isr(cluster, at) == {1, 2, 3})
        after = measured(cluster)
        assert of_partition(cluster, at) == healthy | {"laststableoffsetlag": 0}
        assert (after[UNDER_REPLICATED], after[AT_MIN_ISR]) == (0, 0)
        assert (after[ISR_SHRINKS], after[ISR_EXPANDS]) == (now[ISR_SHRINKS], now[ISR_EXPANDS] + 1)

    on_virtual_cluster(story)


@pytest.mark.rule("O3")
def test_a_partition_below_its_minimum_and_one_without_a_leader_are_counted() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        for name, brokers, minimum in (("alone", [4], "1"), ("strict", [1, 4], "2")):
            topic = CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=brokers)],
                configs=[CreatableTopicConfig(name="min.insync.replicas", value=minimum)],
            )
            await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        await cluster.until(lambda: measured(cluster)[AT_MIN_ISR] == 2)
        cluster.kill(4)
        # Each of the three controllers tells of it; an alert takes the maximum.
        await cluster.until(lambda: measured(cluster)[OFFLINE] == 3)
        await cluster.until(lambda: measured(cluster)[UNDER_MIN_ISR] == 1)
        assert measured(cluster)[AT_MIN_ISR] == 0
        await cluster.start(4)
        await cluster.until(lambda: measured(cluster)[AT_MIN_ISR] == 2)
        assert (measured(cluster)[OFFLINE], measured(cluster)[UNDER_MIN_ISR]) == (0, 0)

    on_virtual_cluster(story, brokers=4)


def named(cluster: SimCluster, node: int) -> set[str]:
    """Partitions that have numbers of their own."""
    samples = [sample for metric in metrics(cluster, node) for sample in metric.samples if sample.labels]
    return {f"{sample.labels['topic']}-{sample.labels['partition']}" for sample in samples}


def test_too_many_partitions_are_named_only_in_trouble() -> None:
    async def story(cluster: SimCluster) -> None:
        # Broker 1 leads them all; broker 2 has copies of two.
        for name, replicas in (("alone", [[1], [1], [1]]), ("copied", [[1, 2], [1, 2]])):
            assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=r) for i, r in enumerate(replicas)]
            topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
            await (await connect(cluster, 1)).call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        await cluster.until(lambda: measured(cluster)[NOT_NAMED] == 5)
        assert (named(cluster, 1), measured(cluster)[UNDER_REPLICATED]) == (set(), 0)
        cluster.kill(2)
        await cluster.until(lambda: measured(cluster)[UNDER_REPLICATED] == 2)
        assert (named(cluster, 1), measured(cluster)[NOT_NAMED]) == ({"copied-0", "copied-1"}, 3)

    on_virtual_cluster(story, brokers=2, controllers=1, properties={"tidelog.metrics.partitions.max": "2"})


def test_names_are_distinct_and_counters_end_in_total() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        found = metrics(cluster, 1)
        names = [metric.name for metric in found]
        assert len(set(names)) == len(names)
        assert all(metric.name.startswith(("kafka_", "tidelog_")) and metric.help for metric in found)
        assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in found)
        assert {UNDER_REPLICATED, ISR_SHRINKS, ISR_EXPANDS, MAX_LAG, OFFLINE, ACTIVE, UNCLEAN} <= set(names)

    on_virtual_cluster(story)


def test_a_node_measures_the_roles_it_has() -> None:
    async def story(cluster: SimCluster) -> None:
        broker = await in_slices(cluster.node(1).measure_stepwise())
        assert broker.broker is not None and broker.controller is None
        assert all(metric.name.startswith("kafka_controller_") for metric in metrics(cluster, 101))

    on_virtual_cluster(story, brokers=1, controllers=1)
    assert list(NodeMeasures(broker=None, controller=None).metrics()) == []
