"""Whole nodes on simulated machines: started, stopped, killed, cut from power, and the same again from one seed."""

from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import fetch_request

from tidelog.sim.cluster import SimCluster, properties_of, roles_of
from tidelog.sim.machine import End
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
