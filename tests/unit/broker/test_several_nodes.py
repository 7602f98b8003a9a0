"""Three whole nodes on virtual time: one controller, metadata everywhere, and what happens when it dies."""

import asyncio

import pytest
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import VirtualClient

from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
)


def active_controllers(cluster: SimCluster) -> list[int]:
    found = []
    for node_id, each in cluster.nodes.items():
        if each.node is not None and each.node.control is not None and cluster.is_running(node_id):
            controller = each.node.control.controller
            if controller is not None and controller.is_active:
                found.append(node_id)
    return found


async def create(client: VirtualClient, name: str, *, copies: int = 3, timeout_ms: int = 5000) -> ErrorCode:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=copies)
    response = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)
    return ErrorCode(response.topics[0].error_code)


def knows(cluster: SimCluster, node_id: int, topic: str) -> bool:
    broker = cluster.node(node_id).broker
    return broker is not None and broker.image.topic(topic) is not None


@pytest.mark.rule("Q7", "C1")
def test_every_broker_hears_of_a_topic_that_any_of_them_was_asked_for() -> None:
    async def story(cluster: SimCluster) -> None:
        assert len(active_controllers(cluster)) == 1
        for node_id in (1, 2, 3, 4):
            client = await connect(cluster, node_id)
            assert await create(client, f"by-{node_id}") is ErrorCode.NONE
            await cluster.until(lambda: all(knows(cluster, other, f"by-{node_id}") for other in (1, 2, 3, 4)))
        await cluster.stop_all()

    on_virtual_cluster(story, brokers=4)


@pytest.mark.rule("Q5")
def test_another_controller_decides_soon_after_the_active_one_is_killed() -> None:
    async def story(cluster: SimCluster) -> None:
        for round_number in range(5):
            (killed,) = active_controllers(cluster)
            other = next(node_id for node_id in cluster.nodes if node_id != killed)
            client = await connect(cluster, other)
            cluster.kill(killed)
            before = cluster.loop.time()
            assert await create(client, f"round-{round_number}", copies=2) is ErrorCode.NONE
            assert cluster.loop.time() - before < 1.0
            await cluster.start(killed)
            await cluster.until(lambda: len(active_controllers(cluster)) == 1)

    on_virtual_cluster(story)


@pytest.mark.rule("Q4")
def test_one_of_three_refuses_and_decides_again_when_another_returns() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        others = [node_id for node_id in cluster.nodes if node_id != controller]
        client = await connect(cluster, others[0])
        cluster.kill(controller)
        cluster.kill(others[1])
        assert await create(client, "refused", copies=1, timeout_ms=3000) is ErrorCode.REQUEST_TIMED_OUT
        await cluster.start(controller)
        assert await create(client, "decided", copies=1) is ErrorCode.NONE
        await cluster.start(others[1])
        await cluster.until(lambda: all(knows(cluster, each, "decided") for each in cluster.nodes))

    on_virtual_cluster(story)
