"""DescribeLogDirs with our own tag: each replica in its own words, and nothing of it for who does not ask."""

import asyncio

import pytest
from tests.unit.broker.test_replication import TOPIC, leader, make_topic, replica, write
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.sim.cluster import SimCluster
from tidelog.wire.codec import RESPONSE_LIMITS, read_message, write_message
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    ReplicaRole,
    ReplicaState,
)


async def described(
    cluster: SimCluster, node_id: int, *, version: int = 5, asked: bool = True
) -> DescribeLogDirsPartition:
    client = await connect(cluster, node_id)
    topics = [DescribableLogDirTopic(topic=TOPIC.topic, partitions=[0])]
    response = await client.call(DescribeLogDirsRequest(topics=topics, include_replica_state=asked), version)
    client.writer.close()
    found: DescribeLogDirsPartition = response.results[0].topics[0].partitions[0]
    return found


def test_followers_tell_their_high_watermark_and_the_leader_of_its_followers() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1), min_insync_replicas="2")
        for number in range(5):
            await write(cluster, b"value-%d" % number)
        at = leader(cluster)
        assert at is not None
        await cluster.until(
            lambda: all(found.log.high_watermark == 5 for node in (1, 2, 3) if (found := replica(cluster, node)))
        )
        for node in (1, 2, 3):
            state = (await described(cluster, node)).replica_state
            assert state is not None
            assert (state.leader_id, state.leader_epoch) == (at, 0)
            assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (0, 5, 5)
            if node != at:
                assert (state.role, state.isr, state.followers) == (ReplicaRole.FOLLOWER, [], [])
                continue
            assert (state.role, state.isr, state.maximal_isr) == (ReplicaRole.LEADER, [1, 2, 3], [1, 2, 3])
            assert (state.proposed_isr, state.epoch_start_offset) == (None, 0)
            assert [each.broker_id for each in state.followers] == sorted({1, 2, 3} - {at})
            assert all(each.log_end_offset == 5 for each in state.followers)
            assert all(0 <= each.last_caught_up_age_ms <= 1000 for each in state.followers)

    on_virtual_cluster(story)


def test_a_follower_that_fetches_no_more_is_caught_up_ever_longer_ago() -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        await write(cluster, b"value")
        at = leader(cluster)
        assert at is not None
        gone = next(node for node in (1, 2, 3) if node != at)
        cluster.kill(gone)
        await write(cluster, b"value")
        await asyncio.sleep(7)
        state = (await described(cluster, at)).replica_state
        assert state is not None
        (of_gone,) = [each for each in state.followers if each.broker_id == gone]
        assert (of_gone.log_end_offset, state.log_end_offset) == (1, 2)
        assert 6_900 <= of_gone.last_caught_up_age_ms <= 9_000

    on_virtual_cluster(story)


@pytest.mark.parametrize(("version", "asked"), [(1, True), (2, False), (5, False)])
def test_who_does_not_ask_or_cannot_is_told_nothing_else_than_by_kafka(version: int, asked: bool) -> None:
    async def story(cluster: SimCluster) -> None:
        await make_topic(await connect(cluster, 1))
        assert (await described(cluster, 1, version=version, asked=asked)).replica_state is None

    on_virtual_cluster(story)


def test_a_null_and_a_full_state_survive_the_wire() -> None:
    state = ReplicaState(
        role=ReplicaRole.LEADER, isr=[1], maximal_isr=[1, 2], proposed_isr=[1, 2], log_end_offset=1 << 40
    )
    plain, full = DescribeLogDirsPartition(partition_index=1), DescribeLogDirsPartition(replica_state=state)
    for each, size in ((plain, 22), (full, None)):
        written = write_message(_response(each), 5)
        assert read_message(DescribeLogDirsResponse, 5, written, limits=RESPONSE_LIMITS) == _response(each)
        assert size is None or len(written) - len(write_message(_response(), 5)) == size


def _response(*partitions: DescribeLogDirsPartition) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        results=[DescribeLogDirsResult(topics=[DescribeLogDirsTopic(name="t", partitions=list(partitions))])]
    )
