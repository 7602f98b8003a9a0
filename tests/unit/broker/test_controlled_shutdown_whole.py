"""Brokers that are stopped in order, one after the other, while clients write (C9)."""

import asyncio
from collections import Counter

import pytest
from tests.unit.broker.replica_stories import (
    ORDERS,
    a_client,
    ask,
    create,
    images,
    leader,
    leads,
    registration,
    until_isr,
    values,
)
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import START_MS, VirtualClient, batch

from tidelog.client.producer import Producer
from tidelog.core.ids import TopicPartition
from tidelog.sim.cluster import CLIENT_PORT, SimCluster, host_of
from tidelog.wire.errors import ErrorCode
from tidelog.wire.records.plain import Record

TOPICS = [TopicPartition(name, 0) for name in ("a", "b", "c")]
pytestmark = pytest.mark.rule("C9")


async def one_topic_per_leader(cluster: SimCluster) -> None:
    for first, tp in enumerate(TOPICS):
        order = [1 + (first + step) % 3 for step in range(3)]
        await create(cluster, order, tp, min_insync_replicas="2")


async def roll(cluster: SimCluster) -> None:
    """Restarts every broker in order, the next when the last is in every ISR again."""
    for node_id in (1, 2, 3):
        await cluster.stop(node_id)
        await cluster.start(node_id)
        for tp in TOPICS:
            await until_isr(cluster, {1, 2, 3}, tp)


async def write_on(cluster: SimCluster, tp: TopicPartition, acknowledged: dict[int, bytes]) -> None:
    """Idempotent, acks=all, tried again as clients do; whatever fails for good fails the test."""
    async with a_client(cluster) as client:
        producer = Producer(client)
        number = 0
        while True:
            value = b"%d" % number
            offset = await producer.send(tp.topic, tp.partition, [Record(timestamp=START_MS, value=value)])
            assert offset not in acknowledged
            acknowledged[offset] = value
            number += 1
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rolling_restart_loses_and_doubles_nothing_for_an_idempotent_producer(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await one_topic_per_leader(cluster)
        written: dict[TopicPartition, dict[int, bytes]] = {tp: {} for tp in TOPICS}
        writers = [asyncio.ensure_future(write_on(cluster, tp, written[tp])) for tp in TOPICS]
        await asyncio.sleep(0.5)
        await roll(cluster)
        await asyncio.sleep(0.5)
        for writer in writers:
            assert not writer.done(), writer.exception()
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        await asyncio.sleep(1)
        for tp in TOPICS:
            acknowledged = written[tp]
            assert len(acknowledged) > 100
            contents = values(cluster, leader(cluster, tp), tp)
            # The last may have been written and not yet acknowledged when the writer was stopped.
            assert [acknowledged[offset] for offset in range(len(acknowledged))] == contents[: len(acknowledged)]
            assert len(contents) - len(acknowledged) in (0, 1)
            for node_id in (1, 2, 3):
                assert values(cluster, node_id, tp) == contents

    on_virtual_cluster(story, seed=seed)


async def write_without_retries(cluster: SimCluster, tp: TopicPartition, seen: Counter[str]) -> None:
    """One answer per write, whatever it is; the next goes to whoever leads then."""
    clients: dict[int, VirtualClient] = {}
    while True:
        # As a client learns it from the metadata of any broker that serves.
        at = leader(cluster, tp)
        try:
            if at not in clients or clients[at].reader.at_eof():
                clients[at] = await connect(cluster, at)
            answer = await ask(clients[at], batch(b"x"), tp, acks=-1, timeout_ms=3000)
            seen[ErrorCode(answer.error_code).name] += 1
        except ConnectionError:
            # Before anything was sent: the old leader does not listen any more, and the client has to ask again.
            clients.pop(at, None)
            seen["not connected"] += 1
        except asyncio.IncompleteReadError:
            clients.pop(at, None)
            seen["no answer"] += 1
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("seed", [1, 2])
def test_without_retries_a_write_may_be_told_to_go_elsewhere_and_nothing_worse(seed: int) -> None:
    """What is written to a leader that is asked to leave is answered: acknowledged, or NOT_LEADER_OR_FOLLOWER."""

    async def story(cluster: SimCluster) -> None:
        await one_topic_per_leader(cluster)
        seen: Counter[str] = Counter()
        writers = [asyncio.ensure_future(write_without_retries(cluster, tp, seen)) for tp in TOPICS]
        await asyncio.sleep(0.5)
        await roll(cluster)
        for writer in writers:
            assert not writer.done(), writer.exception()
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        assert set(seen) <= {"NONE", "NOT_LEADER_OR_FOLLOWER"}, seen
        # At most one write per move was on its way to the leader that left.
        assert seen["NOT_LEADER_OR_FOLLOWER"] <= 2 * len(TOPICS), seen
        assert seen["NONE"] > 500

    on_virtual_cluster(story, seed=seed)


@pytest.mark.parametrize("leaving", [1, 2, 3])
def test_leadership_has_moved_and_others_know_it_before_the_listener_closes(leaving: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await one_topic_per_leader(cluster)
        others = [node_id for node_id in (1, 2, 3) if node_id != leaving]
        stopping = asyncio.ensure_future(cluster.stop(leaving))
        moved = False
        while not stopping.done():
            try:
                _, another = await asyncio.open_connection(host_of(leaving), CLIENT_PORT)
            except ConnectionError:
                break
            another.close()
            moved = all(leader(cluster, tp) != leaving for tp in TOPICS)
            await asyncio.sleep(0.0005)
        assert moved, "a client was refused by a broker that leads"
        for tp in TOPICS:
            assert leads(cluster, leader(cluster, tp), tp)
            assert leaving not in registration(cluster, tp).isr
        await stopping
        # The controller's word for it, and not that its session ended.
        await cluster.until(lambda: all(image.brokers[leaving].fenced for image in images(cluster)), timeout_s=1.0)
        assert {leader(cluster, tp) for tp in TOPICS} <= set(others)

    on_virtual_cluster(story)


def test_a_write_that_waits_when_its_leader_leaves_is_answered() -> None:
    """Nothing is acknowledged that is not committed, and nobody is left without a word."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2")
        client = await connect(cluster, 1)
        # A follower that does not answer holds the write up, and is still in the ISR.
        cluster.pause(3)
        waiting = asyncio.ensure_future(ask(client, batch(b"waits"), ORDERS, acks=-1, timeout_ms=30_000))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        stopping = asyncio.ensure_future(cluster.stop(1))
        answer = await waiting
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await stopping
        cluster.resume(3)
        await until_isr(cluster, {2, 3})
        # It was replicated to the new leader before, and is committed now: the retry would have found it.
        assert values(cluster, 2) == [b"waits"]

    on_virtual_cluster(story)
