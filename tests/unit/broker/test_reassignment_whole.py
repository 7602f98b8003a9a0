"""Replicas move between whole nodes on virtual time: added, removed, swapped, cancelled, throttled (C8)."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.broker.replica_stories import (
    ORDERS,
    a_client,
    ask,
    create,
    isr,
    large_batch,
    leader,
    leads,
    log_of,
    registration,
    replica,
    until_isr,
    until_led_by,
    values,
    write,
)
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import START_MS

from tidelog.client.configs import ResourceType, alter_configs
from tidelog.client.producer import Producer
from tidelog.client.reassignments import alter_reassignments, list_reassignments, wait_reassigned
from tidelog.client.throttles import remove_rates, remove_throttle, set_throttle
from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import Record

pytestmark = pytest.mark.rule("C8")
CONTROLLERS = 1


async def reassign(cluster: SimCluster, replicas: Sequence[int] | None) -> None:
    async with a_client(cluster) as client:
        await alter_reassignments(client, {ORDERS: None if replicas is None else list(replicas)})


async def done(cluster: SimCluster, replicas: Sequence[int]) -> None:
    async with a_client(cluster) as client:
        await wait_reassigned(client, [ORDERS])
    found = registration(cluster)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == (tuple(replicas), (), ())
    await cluster.until(
        lambda: all((replica(cluster, node) is not None) == (node in replicas) for node in cluster.roles if node < 100)
    )


def files(cluster: SimCluster, node_id: int) -> list[str]:
    """What lies on the disk of a node for the partition, also set aside."""
    return [path for path in cluster.machine(node_id).ports.disk.files("/data") if f"/{ORDERS}" in path]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 2], [1, 2, 3]),
        ([1, 2, 3], [2, 1]),
        ([1, 2], [1, 3]),
        ([1, 2], [3, 4]),
        ([1, 2, 3], [3, 2, 1]),
        ([1, 2, 3], [4]),
        ([1], [2, 3, 4]),
    ],
    ids=["add", "remove", "swap a follower", "move away", "reorder", "shrink to another", "grow elsewhere"],
)
def test_replicas_move_while_a_producer_writes(before: list[int], after: list[int]) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, before, min_insync_replicas="1")
        client = a_client(cluster)
        producer = Producer(client)
        for number in range(20):
            await producer.send(ORDERS.topic, 0, [Record(timestamp=START_MS, value=b"%d" % number)])
        cluster.on_metadata = lambda node, image, delta: sizes.append(len(image.partition(ORDERS).isr))  # type: ignore[union-attr]
        sizes: list[int] = []
        await reassign(cluster, after)
        for number in range(20, 60):
            records = [Record(timestamp=START_MS, value=b"%d" % number)]
            assert await producer.send(ORDERS.topic, 0, records) == number
        await client.close()
        await done(cluster, after)
        await until_isr(cluster, set(after))
        # Never fewer copies on the way than the smaller of both assignments.
        assert min(sizes) >= min(len(before), len(after))
        assert leads(cluster, leader(cluster))
        await asyncio.sleep(1)
        for node_id in after:
            assert values(cluster, node_id) == [b"%d" % number for number in range(60)]
        # Whoever was removed forgets it: out of sight at once, off the disk a little later.
        await asyncio.sleep(120)
        for node_id in set(before) - set(after):
            assert files(cluster, node_id) == []

    on_virtual_cluster(story, brokers=4, controllers=CONTROLLERS)


def test_a_leader_that_is_removed_hands_over_in_the_change_that_completes_it() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2])
        await write(cluster, b"x")
        epoch = registration(cluster).leader_epoch
        await reassign(cluster, [2, 3])
        await done(cluster, [2, 3])
        await until_led_by(cluster, 2)
        assert registration(cluster).leader_epoch > epoch
        assert await write(cluster, b"y") == 1

    on_virtual_cluster(story, controllers=CONTROLLERS)


def test_a_reassignment_waits_for_its_targets_is_listed_and_can_be_cancelled() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2], min_insync_replicas="2")
        await write(cluster, b"x")
        cluster.kill(3)
        await reassign(cluster, [1, 3])
        async with a_client(cluster, 1) as client:
            (moving,) = await list_reassignments(client)
            assert (moving.tp, moving.replicas, moving.adding, moving.removing) == (ORDERS, (1, 3, 2), (3,), (2,))
            await asyncio.sleep(5)
            # Not done without its target, and nobody leaves before.
            assert isr(cluster) == {1, 2}
            assert await write(cluster, b"y") == 1
            await alter_reassignments(client, {ORDERS: None})
            assert await list_reassignments(client) == []
            assert registration(cluster).replicas == (1, 2)
            with pytest.raises(ApiError) as refused:
                await alter_reassignments(client, {ORDERS: None})
            assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        await cluster.start(3)
        await asyncio.sleep(1)
        assert replica(cluster, 3) is None
        assert await write(cluster, b"z") == 2

    on_virtual_cluster(story, controllers=CONTROLLERS)


def test_cancelling_one_that_copies_drops_the_copy_again() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2])
        await fill(cluster, 8)
        async with a_client(cluster) as client:
            await set_throttle(client, ORDERS.topic, 0, old=[1, 2], new=[2, 3], bytes_per_second=100_000)
            await alter_reassignments(client, {ORDERS: [2, 3]})
            await cluster.until(lambda: replica(cluster, 3) is not None and log_of(cluster, 3).size_bytes > 0)
            await alter_reassignments(client, {ORDERS: None})
        await cluster.until(lambda: replica(cluster, 3) is None)
        # As Kafka: who stays, in the order of the target.
        assert registration(cluster).replicas == (2, 1)
        assert isr(cluster) == {1, 2}
        assert leader(cluster) == 1

    on_virtual_cluster(story, controllers=CONTROLLERS)


def test_a_reassignment_does_not_take_the_in_sync_set_below_its_minimum() -> None:
    """The targets are in sync before anybody leaves; a copy that is slow only makes it last."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2], min_insync_replicas="2")
        await fill(cluster, 4)
        seen: list[set[int]] = []
        cluster.on_metadata = lambda node, image, delta: seen.append(set(image.partition(ORDERS).isr))  # type: ignore[union-attr]
        async with a_client(cluster) as client:
            await set_throttle(client, ORDERS.topic, 0, old=[1, 2], new=[3, 4], bytes_per_second=1_000_000)
        await reassign(cluster, [3, 4])
        for _ in range(20):
            await write(cluster, b"meanwhile")
        await done(cluster, [3, 4])
        assert all(len(each) >= 2 for each in seen)
        assert isr(cluster) == {3, 4}

    on_virtual_cluster(story, brokers=4, controllers=CONTROLLERS)


# --- throttled ---


async def fill(cluster: SimCluster, megabytes: int) -> None:
    client = await connect(cluster, leader(cluster))
    for _ in range(megabytes * 10):
        answer = await ask(client, large_batch(100_000), acks=-1, timeout_ms=5000)
        assert answer.error_code == ErrorCode.NONE
    client.writer.close()


async def throttle(cluster: SimCluster, rate: int, sides: str) -> None:
    async with a_client(cluster) as client:
        await set_throttle(client, ORDERS.topic, 0, old=[1, 2], new=[1, 3], bytes_per_second=rate)
        if sides != "both":
            lifted = "follower" if sides == "leader" else "leader"
            for broker in (1, 2, 3):
                keys = [f"{lifted}.replication.throttled.rate"]
                await alter_configs(client, ResourceType.BROKER, str(broker), delete_keys=keys)


@pytest.mark.parametrize("sides", ["leader", "follower", "both"])
@pytest.mark.parametrize("rate", [400_000, 2_000_000])
def test_the_rate_is_held_within_ten_percent(rate: int, sides: str) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2])
        await fill(cluster, 16)
        await throttle(cluster, rate, sides)
        began = cluster.loop.time()
        await reassign(cluster, [1, 3])
        await cluster.until(lambda: isr(cluster) == {1, 3}, timeout_s=60)
        taken_s = cluster.loop.time() - began
        measured = log_of(cluster, 3).size_bytes / taken_s
        assert abs(measured - rate) < 0.1 * rate, f"{measured:.0f} bytes/s, {rate} were allowed"

    on_virtual_cluster(story, controllers=CONTROLLERS)


def test_without_a_throttle_it_is_much_faster() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2])
        await fill(cluster, 16)
        began = cluster.loop.time()
        await reassign(cluster, [1, 3])
        await until_isr(cluster, {1, 3})
        assert log_of(cluster, 3).size_bytes / (cluster.loop.time() - began) > 20_000_000

    on_virtual_cluster(story, controllers=CONTROLLERS)


def test_replicas_in_sync_are_not_held_back_and_a_throttle_taken_away_ends_it() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2], min_insync_replicas="2")
        await fill(cluster, 8)
        await throttle(cluster, 50_000, "both")
        async with a_client(cluster) as client:
            # All replicas of the topic, those in sync as well.
            everybody = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
            await alter_configs(client, ResourceType.TOPIC, ORDERS.topic, set_keys=everybody)
            await reassign(cluster, [1, 3])
            began = cluster.loop.time()
            await fill(cluster, 2)
            # A hundred kilobytes per write, at fifty a second, would take forty seconds.
            assert cluster.loop.time() - began < 1.0
            assert isr(cluster) == {1, 2}
            assert 3 not in isr(cluster)
            delete = list(everybody)
            await alter_configs(client, ResourceType.TOPIC, ORDERS.topic, delete_keys=delete)
            await remove_throttle(client, ORDERS.topic, 0)
            await remove_rates(client, {1, 2, 3})
            began = cluster.loop.time()
            await until_isr(cluster, {1, 3})
            assert cluster.loop.time() - began < 2.0

    on_virtual_cluster(story, controllers=CONTROLLERS)
