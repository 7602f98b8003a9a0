"""Real processes cut off from each other, in one direction or both, and slow: as `tidelog chaos` does it."""

import asyncio
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from tidelog.client.client import Client
from tidelog.client.quorum import describe_quorum
from tidelog.testing import Cluster

SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
ATTEMPTS = 4


def active_controller(cluster: Cluster) -> int:
    async def ask() -> int:
        async with Client(cluster.bootstrap) as client:
            return (await describe_quorum(client)).leader_id

    return asyncio.run(ask())


def write(cluster: Cluster, topic: str, *values: str, not_by: int = 0) -> None:
    """Until all of them are acknowledged; `not_by` is not asked who leads: cut off, it still takes itself for that.

    A broker that is a moment behind may name it all the same, and then it holds the write: who asks again hears better.
    """
    brokers = [address for node, address in enumerate(cluster.bootstrap.split(","), 1) if node != not_by]
    for _ in range(ATTEMPTS):
        if not (failed := attempt(brokers, topic, values)):
            return
    raise AssertionError(f"{topic} took no writes: {failed}")


def attempt(brokers: Sequence[str], topic: str, values: Sequence[str]) -> list[str]:
    """Why some were not acknowledged."""
    producer = Producer({"bootstrap.servers": ",".join(brokers), "acks": "all", "message.timeout.ms": 12_000})
    failed: list[str] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    assert producer.flush(20) == 0
    return failed


@pytest.mark.rule("C2", "E5")
def test_a_leader_that_is_cut_off_is_replaced_and_returns_as_a_follower() -> None:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        write(cluster, "orders", "before")
        cut = cluster.leader("orders", 0)
        cluster.isolate(cut)
        cluster.wait_leader("orders", 0, not_in=[cut])
        write(cluster, "orders", "during", not_by=cut)
        cluster.heal()
        cluster.wait_isr("orders", 0, {1, 2, 3}, timeout=40)
        write(cluster, "orders", "after")
        ends = {replica.log_end_offset for replica in cluster.replicas("orders", 0)}
        # More than three if a write was acknowledged too late to be heard.
        assert len(ends) == 1 and (ends.pop() or 0) >= 3


@pytest.mark.rule("I1", "I2")
def test_a_follower_that_does_not_hear_its_leader_leaves_the_isr_and_comes_back() -> None:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        leader = cluster.leader("orders", 0)
        # A controller that does not hear the leader would fence it.
        deaf = next(node for node in (1, 2, 3) if node not in (leader, active_controller(cluster)))
        cluster.isolate(deaf, from_nodes=[leader])
        # While there is nothing to fetch it has everything (I1). A write is acknowledged when it has left.
        write(cluster, "orders", "without it")
        cluster.wait_isr("orders", 0, {1, 2, 3} - {deaf}, timeout=40)
        cluster.heal()
        cluster.wait_isr("orders", 0, {1, 2, 3}, timeout=40)


def test_a_slow_node_is_late_and_nothing_else() -> None:
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3, config={"min.insync.replicas": "3"})
        leader = cluster.leader("orders", 0)
        cluster.slow(next(node for node in (1, 2, 3) if node != leader), ms=150)
        write(cluster, "orders", "slowly")
        cluster.heal()
        write(cluster, "orders", "again")
        cluster.wait_isr("orders", 0, {1, 2, 3})
