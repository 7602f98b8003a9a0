"""Whole nodes on simulated machines: started, stopped, killed, cut from power, and the same again from one seed."""

import asyncio

import pytest
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import fetch_request

from tidelog.sim.cluster import SimCluster, host_of, properties_of, roles_of
from tidelog.sim.links import Cut
from tidelog.sim.machine import End, NotRunning, State
from tidelog.wire.errors import ErrorCode


def test_who_is_what() -> None:
    assert roles_of(1) == {1: "broker,controller"}
    assert roles_of(4) == {1: "broker,controller", 2: "broker,controller", 3: "broker,controller", 4: "broker"}
    assert roles_of(2, 1) == {1: "broker", 2: "broker", 101: "controller"}
    assert properties_of(4, roles_of(4))["listeners"] == "PLAINTEXT://10.0.0.4:9092"
    assert properties_of(101, roles_of(1, 2))["controller.quorum.voters"] == "101@10.0.0.101:9093,102@10.0.0.102:9093"


async def produce(cluster: SimCluster, *values: bytes) -> int:
    client = await connect(cluster, 1)
    answer = await client.produce("orders", *values)
    client.writer.close()
    assert answer.error_code == ErrorCode.NONE
    return answer.base_offset


async def fetched(cluster: SimCluster, offset: int) -> int:
    client = await connect(cluster, 1)
    answer = (await client.call(fetch_request("orders", offset, wait_ms=0), 12)).responses[0].partitions[0]
    client.writer.close()
    high_watermark: int = answer.high_watermark
    return high_watermark


def test_a_node_is_stopped_killed_and_cut_from_power() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        await client.create_topic("orders")
        assert await produce(cluster, b"one", b"two") == 0
        end = await cluster.stop(1)
        assert (end.end, end.error, end.unhandled) == (End.RETURNED, None, ())
        await cluster.start(1)
        assert await produce(cluster, b"three") == 2
        cluster.kill(1)
        await cluster.start(1)
        assert await produce(cluster, b"four") == 3
        cluster.pause(1)
        cluster.loop.call_later(5, cluster.resume, 1)
        before = cluster.loop.time()
        assert await produce(cluster, b"five") == 4
        assert cluster.loop.time() - before > 5
        cluster.power_cut(1)
        await cluster.start(1)
        # One replica that did not wait for its disk promises nothing across a power cut; it must serve again.
        assert await fetched(cluster, 0) <= 5

    on_virtual_cluster(story, brokers=1)


def test_the_same_seed_takes_the_same_steps() -> None:
    steps: list[tuple[int, float]] = []

    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        await client.create_topic("orders")
        for number in range(10):
            await produce(cluster, b"%d" % number)
        cluster.kill(1)
        await cluster.start(1)
        steps.append((cluster.loop.steps, cluster.loop.time()))

    for seed in (1, 1, 2):
        on_virtual_cluster(story, brokers=1, seed=seed)
    assert steps[0] == steps[1] != steps[2]


def leader_seen_by(cluster: SimCluster, node_id: int) -> int:
    control = cluster.node(node_id).control
    return -1 if control is None else control.raft.leader_id


def unfenced(cluster: SimCluster, node_id: int) -> list[int]:
    """The brokers that may serve, as one node knows."""
    control = cluster.node(node_id).control
    assert control is not None
    return sorted(broker.broker_id for broker in control.image.brokers.values() if not broker.fenced)


@pytest.mark.parametrize("fate", ["kill", "power_cut", "pause", "isolate", "stop"])
def test_another_controller_takes_over_whatever_happens_to_the_first(fate: str) -> None:
    async def story(cluster: SimCluster) -> None:
        first = leader_seen_by(cluster, 1)
        others = [node_id for node_id in cluster.nodes if node_id != first]
        await cluster.until(lambda: unfenced(cluster, others[0]) == [1, 2, 3])
        cut: Cut | None = None
        if fate == "isolate":
            cut = cluster.network.apply(Cut.isolate(host_of(first)))
        elif fate == "stop":
            assert (await cluster.stop(first)).left_tasks == ()
        else:
            getattr(cluster, fate)(first)
        await cluster.until(lambda: all(leader_seen_by(cluster, node_id) in others for node_id in others))
        await cluster.until(lambda: unfenced(cluster, others[0]) == others)
        if cut is not None:
            cluster.network.heal(cut)
        elif fate == "pause":
            cluster.resume(first)
        else:
            await cluster.start(first)
        await cluster.until(lambda: unfenced(cluster, first) == [1, 2, 3])

    on_virtual_cluster(story, brokers=3)


def test_brokers_and_controllers_may_be_nodes_of_their_own() -> None:
    async def story(cluster: SimCluster) -> None:
        assert list(cluster.nodes) == [1, 2, 101, 102, 103]
        assert leader_seen_by(cluster, 1) in (101, 102, 103)
        await cluster.until(lambda: unfenced(cluster, 101) == [1, 2])
        await cluster.stop_all()
        for node in cluster.nodes.values():
            (end,) = node.machine.exits
            assert (end.end, end.left_tasks, end.unhandled) == (End.RETURNED, (), ())

    on_virtual_cluster(story, brokers=2, controllers=3)


def test_a_node_without_a_majority_waits_and_can_be_killed_meanwhile() -> None:
    async def story(cluster: SimCluster) -> None:
        starting = cluster.start(1)
        await asyncio.sleep(20)
        assert not starting.done()
        cluster.kill(1)
        with pytest.raises(NotRunning, match="killed while it started"):
            await starting
        await cluster.start_all()

    on_virtual_cluster(story, started=False)


def test_what_the_world_still_waits_for_is_cancelled_at_its_end() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(1)
            ended.append("in order")

    with SimCluster(1) as cluster:

        async def story() -> None:
            cluster.loop.create_task(waits())
            await cluster.start(1)

        cluster.run(story())
        assert cluster.machine(1).state is State.RUNNING
    assert ended == ["in order"]
