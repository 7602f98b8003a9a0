"""What stories of replicated partitions share: topics placed by hand, who leads, what each replica holds, writers."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence

from tests.unit.broker.virtual_cluster import connect
from tests.unit.broker.virtual_node import START_MS, VirtualClient, batch, produce_request

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.configs import ResourceType, alter_configs
from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.metadata.image import ClusterImage, PartitionRegistration
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader
from tidelog.sim.cluster import CLIENT_PORT, SimCluster, host_of
from tidelog.storage.log import Log
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.produce import PartitionProduceResponse
from tidelog.wire.records.plain import Record, encode_batch, iter_batches

ORDERS = TopicPartition("orders", 0)
RETRIABLE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)


def a_client(cluster: SimCluster, *nodes: int) -> Client:
    """A client of the brokers named, or of all."""
    return Client(
        [Address(host_of(node), CLIENT_PORT) for node in nodes or sorted(cluster.nodes)], rng=random.Random(3)
    )


async def create(cluster: SimCluster, replicas: Sequence[int], tp: TopicPartition = ORDERS, **config: str) -> None:
    """A topic of one partition, on these brokers in this order; returns when each of them has made its replica."""
    client = await connect(cluster, next(node for node in cluster.nodes if cluster.nodes[node].serves))
    topic = CreatableTopic(
        name=tp.topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )
    response = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    client.writer.close()
    assert response.topics[0].error_code == ErrorCode.NONE, response
    await cluster.until(lambda: all(replica(cluster, node, tp) is not None for node in replicas))


async def set_config(cluster: SimCluster, topic: str, **config: str) -> None:
    async with a_client(cluster) as client:
        keys = {key.replace("_", "."): value for key, value in config.items()}
        await alter_configs(client, ResourceType.TOPIC, topic, set_keys=keys)


# --- what is known ---


def images(cluster: SimCluster) -> Iterator[ClusterImage]:
    for node_id in cluster.nodes:
        control = cluster.node(node_id).control if cluster.is_running(node_id) else None
        if control is not None:
            yield control.image


def registration(cluster: SimCluster, tp: TopicPartition = ORDERS) -> PartitionRegistration:
    """As whoever knows most has it."""
    found = [known for image in images(cluster) if (known := image.partition(tp)) is not None]
    return max(found, key=lambda known: known.partition_epoch)


def leader(cluster: SimCluster, tp: TopicPartition = ORDERS) -> int:
    return registration(cluster, tp).leader


def isr(cluster: SimCluster, tp: TopicPartition = ORDERS) -> set[int]:
    return set(registration(cluster, tp).isr)


def replica(cluster: SimCluster, node_id: int, tp: TopicPartition = ORDERS) -> Partition | None:
    broker = cluster.node(node_id).broker if cluster.is_running(node_id) else None
    return None if broker is None else broker.replicas.get(tp)


def log_of(cluster: SimCluster, node_id: int, tp: TopicPartition = ORDERS) -> Log:
    found = replica(cluster, node_id, tp)
    assert found is not None, f"{tp} is not on {node_id}"
    return found.log


def leads(cluster: SimCluster, node_id: int, tp: TopicPartition = ORDERS) -> bool:
    """Whether it is the leader, and knows it."""
    found = replica(cluster, node_id, tp)
    return found is not None and isinstance(found.role, Leader) and leader(cluster, tp) == node_id


async def until_led_by(cluster: SimCluster, node_id: int, tp: TopicPartition = ORDERS) -> None:
    if node_id == NO_LEADER:
        await cluster.until(lambda: leader(cluster, tp) == NO_LEADER)
    else:
        await cluster.until(lambda: leads(cluster, node_id, tp))


async def until_isr(cluster: SimCluster, members: set[int], tp: TopicPartition = ORDERS) -> None:
    await cluster.until(lambda: isr(cluster, tp) == members)


def values(cluster: SimCluster, node_id: int, tp: TopicPartition = ORDERS) -> list[bytes]:
    """Every record of a replica, committed or not."""
    log = log_of(cluster, node_id, tp)
    found: list[bytes] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = log.read(position, 1 << 20, upper_bound=log.log_end_offset, min_one=True).read()
        for header, records in iter_batches(data):
            found += [record.value or b"" for record in records]
            position = header.last_offset + 1
    return found


# --- writing ---


async def ask(
    client: VirtualClient, records: bytes, tp: TopicPartition = ORDERS, **how: int
) -> PartitionProduceResponse:
    response = await client.call(produce_request(tp.topic, records, **how), 9)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def write(
    cluster: SimCluster, value: bytes, tp: TopicPartition = ORDERS, *, acks: int = -1, timeout_ms: int = 5000
) -> int:
    """To whoever leads, tried again until it is acknowledged; its offset."""
    for _ in range(500):
        at = leader(cluster, tp)
        if at != NO_LEADER and cluster.is_running(at):
            try:
                client = await connect(cluster, at)
                answer = await ask(client, batch(value), tp, acks=acks, timeout_ms=timeout_ms)
                client.writer.close()
            except (ConnectionError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.02)
                continue
            if answer.error_code == ErrorCode.NONE:
                return answer.base_offset
            assert answer.error_code in RETRIABLE, answer
        await asyncio.sleep(0.02)
    raise AssertionError(f"{value!r} was never acknowledged")


def large_batch(size: int, fill: bytes = b"x") -> bytes:
    return encode_batch([Record(timestamp=START_MS, key=None, value=fill * size)])


async def settled(holds: Callable[[], object], for_s: float = 1.0) -> None:
    """It holds, and goes on to."""
    deadline = asyncio.get_running_loop().time() + for_s
    while asyncio.get_running_loop().time() < deadline:
        assert holds()
        await asyncio.sleep(0.05)
