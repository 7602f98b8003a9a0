"""Three whole nodes on virtual time replicate: what is acknowledged is on all of them, whoever dies."""

import asyncio

import pytest
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import VirtualClient, batch, produce_request

from tidelog.core.ids import TopicPartition
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader
from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.produce import PartitionProduceResponse

TOPIC = TopicPartition("orders", 0)


def replica(cluster: SimCluster, node_id: int) -> Partition | None:
    broker = cluster.node(node_id).broker
    return None if broker is None else broker.replicas.get(TOPIC)


def leader(cluster: SimCluster) -> int | None:
    for node_id in cluster.nodes:
        if cluster.is_running(node_id):
            found = replica(cluster, node_id)
            if found is not None and isinstance(found.role, Leader):
                broker = cluster.node(node_id).broker
                assert broker is not None
                registration = broker.image.partition(TOPIC)
                if registration is not None and registration.leader == node_id:
                    return node_id
    return None


def isr(cluster: SimCluster, node_id: int) -> set[int]:
    broker = cluster.node(node_id).broker
    assert broker is not None
    registration = broker.image.partition(TOPIC)
    return set() if registration is None else set(registration.isr)


async def make_topic(client: VirtualClient, **config: str) -> None:
    topic = CreatableTopic(
        name=TOPIC.topic,
        num_partitions=1,
        replication_factor=3,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )
    response = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response


async def write(cluster: SimCluster, value: bytes, *, timeout_ms: int = 5000) -> PartitionProduceResponse:
    """To whoever leads, tried again until it is acknowledged."""
    for _ in range(200):
        at = leader(cluster)
        if at is not None:
            try:
                client = await connect(cluster, at)
                response = await client.call(produce_request(TOPIC.topic, batch(value), -1, timeout_ms), 9)
                answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
                client.writer.close()
                if answer.error_code == ErrorCode.NONE:
                    return answer
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
        await asyncio.sleep(0.02)
    raise AssertionError("never acknowledged")


@pytest.mark.rule("P3", "W1", "F2")
def test_a_write_is_acknowledged_when_every_in_sync_replica_has_it() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        await make_topic(client, min_insync_replicas="2")
        for number in range(20):
            answer = await write(cluster, b"value-%d" % number)
            assert answer.base_offset == number
            ends = [found.log.log_end_offset for node in (1, 2, 3) if (found := replica(cluster, node)) is not None]
            assert ends == [number + 1] * 3

    on_virtual_cluster(story)


@pytest.mark.rule("C3", "E4", "W5")
def test_nothing_acknowledged_is_lost_when_leaders_are_killed() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        await make_topic(client, min_insync_replicas="2")
        acknowledged = []
        for number in range(12):
            answer = await write(cluster, b"value-%d" % number)
            acknowledged.append((answer.base_offset, b"value-%d" % number))
            if number % 3 == 2:
                killed = leader(cluster)
                assert killed is not None
                cluster.kill(killed)
                before = cluster.loop.time()
                answer = await write(cluster, b"after-%d" % number)
                acknowledged.append((answer.base_offset, b"after-%d" % number))
                assert cluster.loop.time() - before < 1.0
                await cluster.start(killed)
                await cluster.until(lambda: isr(cluster, leader(cluster) or 1) == {1, 2, 3})
        offsets = [offset for offset, _ in acknowledged]
        assert offsets == list(range(len(acknowledged)))
        await asyncio.sleep(1)
        logs = [found.log for node in (1, 2, 3) if (found := replica(cluster, node)) is not None]
        contents = [log.read(0, 1 << 20, upper_bound=log.log_end_offset, min_one=True).read() for log in logs]
        assert contents[0] == contents[1] == contents[2]
        for _, value in acknowledged:
            assert value in contents[0]

    on_virtual_cluster(story)
