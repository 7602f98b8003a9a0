"""The gauges and counters of three nodes while brokers come and go (O3), under the names that alert rules use."""

from collections import Counter

import pytest
from tests.unit.broker.test_replication import TOPIC, isr, leader, make_topic, write
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.broker.measures import Metric, NodeMeasures, Sample
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
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


def measured(cluster: SimCluster) -> dict[str, int]:
    """Summed over the running nodes, as a query over a cluster does; of each name without labels."""
    total: Counter[str] = Counter()
    for node in running(cluster):
        for metric in cluster.node(node).measures().metrics():
            total[metric.name] += sum(sample.value for sample in metric.samples)
    return dict(total)


def running(cluster: SimCluster) -> list[int]:
    return [node for node in cluster.nodes if cluster.is_running(node)]


def of_partition(cluster: SimCluster, node: int) -> dict[str, int]:
    labels = {"topic": TOPIC.topic, "partition": "0"}
    return {
        metric.name.removeprefix("kafka_cluster_partition_"): sample.value
        for metric in cluster.node(node).measures().metrics()
        for sample in metric.samples
        if sample.labels == labels
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
        assert of_partition(cluster, gone) == dict.fromkeys(of_partition(cluster, at), 0)

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


def test_names_are_distinct_and_counters_end_in_total() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        metrics = cluster.node(1).measures().metrics()
        names = [metric.name for metric in metrics]
        assert len(set(names)) == len(names)
        assert all(metric.name.startswith("kafka_") and metric.help for metric in metrics)
        assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in metrics)
        assert {UNDER_REPLICATED, ISR_SHRINKS, ISR_EXPANDS, MAX_LAG, OFFLINE, ACTIVE, UNCLEAN} <= set(names)

    on_virtual_cluster(story)


def test_a_node_measures_the_roles_it_has() -> None:
    async def story(cluster: SimCluster) -> None:
        broker, controller = cluster.node(1).measures(), cluster.node(101).measures()
        assert (broker.controller, controller.broker) == (None, None)
        assert all(metric.name.startswith("kafka_controller_") for metric in controller.metrics())

    on_virtual_cluster(story, brokers=1, controllers=1)
    assert NodeMeasures(broker=None, controller=None).metrics() == []
    assert Metric(name="n", kind="gauge", help="h", samples=(Sample(1),)).samples[0].labels == {}
