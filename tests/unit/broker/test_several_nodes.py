"""Three whole nodes on virtual time: one controller, metadata everywhere, and what happens when it dies."""

import asyncio
from functools import partial

import pytest
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import VirtualClient

from tidelog.broker.metadata_follower import Pace
from tidelog.core.ids import TopicPartition
from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest


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
        names = [f"by-{node_id}" for node_id in cluster.nodes]
        for node_id, name in zip(cluster.nodes, names, strict=True):
            client = await connect(cluster, node_id)
            assert await create(client, name) is ErrorCode.NONE
        await cluster.until(lambda: all(knows(cluster, node_id, name) for node_id in cluster.nodes for name in names))
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


def fenced(cluster: SimCluster, asked: int, broker_id: int) -> bool:
    broker = cluster.node(asked).broker
    assert broker is not None
    return broker.image.brokers[broker_id].fenced


@pytest.mark.rule("C2")
def test_a_broker_whose_process_is_gone_is_fenced_long_before_its_session_ends() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        killed = next(node_id for node_id in cluster.nodes if node_id != controller)
        cluster.kill(killed)
        before = cluster.loop.time()
        await cluster.until(lambda: fenced(cluster, controller, killed))
        assert cluster.loop.time() - before < 0.5

    on_virtual_cluster(story)


@pytest.mark.rule("C2")
def test_a_new_controller_fences_the_one_before_it_at_once_and_nobody_else() -> None:
    async def story(cluster: SimCluster) -> None:
        (killed,) = active_controllers(cluster)
        others = [node_id for node_id in cluster.nodes if node_id != killed]
        cluster.kill(killed)
        before = cluster.loop.time()
        await cluster.until(lambda: fenced(cluster, others[0], killed))
        assert cluster.loop.time() - before < 1.0
        await asyncio.sleep(20)
        assert not any(fenced(cluster, others[0], other) for other in others)

    on_virtual_cluster(story)


@pytest.mark.rule("C2")
def test_a_new_controller_has_heard_from_everybody_when_the_next_broker_dies() -> None:
    async def story(cluster: SimCluster) -> None:
        for _ in range(4):
            (killed,) = active_controllers(cluster)
            left = [node_id for node_id in cluster.nodes if node_id != killed]
            cluster.kill(killed)
            await cluster.until(lambda: bool(active_controllers(cluster)))
            await cluster.start(killed)
            await asyncio.sleep(0.5)
            (controller,) = active_controllers(cluster)
            (victim,) = [node_id for node_id in left if node_id != controller]
            cluster.kill(victim)
            before = cluster.loop.time()
            await cluster.until(partial(fenced, cluster, controller, victim))
            assert cluster.loop.time() - before < 0.5
            await cluster.start(victim)
            await asyncio.sleep(0.5)

    on_virtual_cluster(story)


@pytest.mark.rule("C2")
def test_a_broker_that_is_silent_but_alive_keeps_its_session_to_the_end() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        silent = next(node_id for node_id in cluster.nodes if node_id != controller)
        cluster.pause(silent)
        before = cluster.loop.time()
        await cluster.until(lambda: fenced(cluster, controller, silent))
        # Its last heartbeat may have been an interval ago.
        assert 9.0 - 2.5 < cluster.loop.time() - before < 9.0 + 1.0
        cluster.resume(silent)
        await cluster.until(lambda: not fenced(cluster, controller, silent))

    on_virtual_cluster(story)


@pytest.mark.rule("C9")
def test_a_broker_that_stops_in_order_is_let_go_as_soon_as_the_others_know() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        stopping = next(node_id for node_id in cluster.nodes if node_id != controller)
        client = await connect(cluster, controller)
        # One replica each, so that the broker leads something and nobody has to catch up first.
        assert await create(client, "led", copies=1) is ErrorCode.NONE
        before = cluster.loop.time()
        await cluster.stop(stopping)
        assert cluster.loop.time() - before < 1.0, "no heartbeat interval is waited for"
        assert fenced(cluster, controller, stopping)

    on_virtual_cluster(story)


def test_a_whole_cluster_stops_in_order_and_starts_again() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        assert await create(client, "kept") is ErrorCode.NONE
        before = cluster.loop.time()
        await cluster.stop_all()
        assert cluster.loop.time() - before < 8.0
        await cluster.start_all()
        assert all(knows(cluster, node_id, "kept") for node_id in cluster.nodes)

    on_virtual_cluster(story)


@pytest.mark.rule("Q7")
def test_brokers_only_and_controllers_only() -> None:
    async def story(cluster: SimCluster) -> None:
        assert len(active_controllers(cluster)) == 1
        client = await connect(cluster, 2)
        assert await create(client, "orders", copies=2) is ErrorCode.NONE
        (killed,) = active_controllers(cluster)
        cluster.kill(killed)
        assert await create(client, "payments", copies=2) is ErrorCode.NONE
        await cluster.until(lambda: all(knows(cluster, broker, "payments") for broker in (1, 2)))

    on_virtual_cluster(story, brokers=2, controllers=3)


@pytest.mark.rule("Q6")
def test_a_node_that_was_away_for_long_takes_a_snapshot_and_goes_on() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        away = next(node_id for node_id in cluster.nodes if node_id != controller)
        client = await connect(cluster, controller)
        await cluster.stop(away)
        for number in range(60):
            assert await create(client, f"topic-{number}", copies=2) is ErrorCode.NONE
        control = cluster.node(controller).control
        assert control is not None and control.raft.log.log_start_offset > 0, "the log before a snapshot is deleted"
        await cluster.start(away)
        await cluster.until(lambda: knows(cluster, away, "topic-59"))
        assert all(knows(cluster, away, f"topic-{number}") for number in range(60))

    properties = {
        "metadata.log.max.record.bytes.between.snapshots": "2000",
        "metadata.max.retention.bytes": "4000",
    }
    on_virtual_cluster(story, properties=properties)


@pytest.mark.rule("Q7", "C1")
@pytest.mark.parametrize("pause_s", [0.0, 0.01])
def test_metadata_applied_a_partition_at_a_time_stays_in_order(pause_s: float) -> None:
    """As on a machine so slow that every step is a slice: topics made, deleted and made again, nodes restarted."""

    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        for number in range(6):
            assert await create(client, f"topic-{number}") is ErrorCode.NONE
            deleted = await client.call(DeleteTopicsRequest(topic_names=["again"], timeout_ms=5000), 5)
            assert deleted.responses[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert await create(client, "again") is ErrorCode.NONE
            if number == 3:
                cluster.kill(2)
                await cluster.start(2)
        wanted = {TopicPartition(name, index) for name in ("again", "topic-5") for index in range(3)}

        def holds_all(node_id: int) -> bool:
            broker = cluster.node(node_id).broker
            assert broker is not None
            ids = {name: topic.topic_id for name, topic in broker.image.topics_by_name.items()}
            held = {
                each.topic_partition for each in broker.replicas if ids.get(each.topic_partition.topic) == each.topic_id
            }
            return wanted <= held and len(held) == len(list(broker.replicas)) == len(list(broker.logs))

        await cluster.until(lambda: all(holds_all(node_id) for node_id in cluster.nodes))
        await cluster.stop_all()

    on_virtual_cluster(story, pace=lambda _: Pace(slice_s=-1.0, pause_s=pause_s))
