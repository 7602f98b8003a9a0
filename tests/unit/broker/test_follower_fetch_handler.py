"""Fetches of a follower over the wire to a whole node: what ends their wait, what they tell, who is woken by it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.second_broker import ORDERS, follower_fetch, with_second_broker
from tests.unit.broker.virtual_node import (
    VirtualClient,
    batch,
    fetch_request,
    on_virtual_time,
    produce_request,
    running_node,
)

from tidelog.replication.fetch_session import SHORTEST_WALK_S
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

V = 17


class SilentController:
    """Takes what it is sent and does not answer."""

    async def send(self, request: Any, *, timeout_ms: int = 0) -> Any:
        await asyncio.Event().wait()

    async def send_once(self, request: Any, *, lane: str, timeout_s: float) -> Any:
        await asyncio.Event().wait()


def only(response: Any) -> Any:
    return response.responses[0].partitions[0]


@pytest.mark.rule("F3")
def test_an_append_ends_a_followers_wait_and_not_a_consumers() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower, reader = [await VirtualClient.connect() for _ in range(3)]
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            consuming = asyncio.ensure_future(reader.call(fetch_request("orders", 0, wait_ms=10_000), 12))
            fetching = asyncio.ensure_future(follower.call(follower_fetch(broker, 0, 7, wait_ms=10_000), V))
            await asyncio.sleep(0.1)
            assert len(broker.fetch_purgatory) == 2
            before = loop.time()
            producing = asyncio.ensure_future(client.produce("orders", b"x"))
            found = only(await fetching)
            assert (found.records, found.high_watermark, loop.time()) == (found.records, 0, before)
            assert len(found.records) == len(batch(b"x"))
            assert not consuming.done()
            assert not producing.done()
            # The next fetch says that it has the record: the write is acknowledged and the consumer sees it.
            found = only(await follower.call(follower_fetch(broker, 1, 7), V))
            assert found.high_watermark == 1
            assert (await producing).error_code == ErrorCode.NONE
            assert len(only(await consuming).records) == len(batch(b"x"))
            assert loop.time() == before

    on_virtual_time(story)


@pytest.mark.rule("F3")
def test_a_high_watermark_it_has_not_seen_ends_a_followers_wait() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            producing = asyncio.ensure_future(client.produce("orders", b"x"))
            first = await follower.call(follower_fetch(broker, 0, 7, wait_ms=10_000, session=(0, 0)), V)
            session = first.session_id
            assert (session > 0, only(first).high_watermark) == (True, 0)
            # Its own fetch moves the high watermark: no need to wait for what it can be told now.
            before = loop.time()
            second = await follower.call(follower_fetch(broker, 1, 7, wait_ms=10_000, session=(session, 1)), V)
            assert (only(second).high_watermark, only(second).records, loop.time()) == (1, b"", before)
            assert (await producing).error_code == ErrorCode.NONE
            # Now it knows, and waits.
            request = follower_fetch(broker, 1, 7, wait_ms=10_000, session=(session, 2))
            third = asyncio.ensure_future(follower.call(request, V))
            await asyncio.sleep(1.0)
            assert not third.done()
            third.cancel()

    on_virtual_time(story)


@pytest.mark.rule("F3")
def test_a_change_of_the_isr_that_moves_the_high_watermark_wakes_the_others() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, reader = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            producing = asyncio.ensure_future(client.call(produce_request("orders", batch(b"x"), -1, 60_000), 9))
            consuming = asyncio.ensure_future(reader.call(fetch_request("orders", 0, wait_ms=60_000), 12))
            await asyncio.sleep(1.0)
            partition = broker.replicas.partition(ORDERS)
            role = partition.require_leader()
            before = loop.time()
            smaller = broker.image.partition(ORDERS)
            assert smaller is not None
            after = smaller._replace(isr=(1,), partition_epoch=role.partition_epoch + 1)
            assert partition.apply(after, loop.time()).high_watermark_moved
            broker.replicas.on_progress(partition)
            assert (await producing).responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert len(only(await consuming).records) == len(batch(b"x"))
            assert loop.time() == before

    on_virtual_time(story)


@pytest.mark.rule("F3")
def test_a_deposed_leader_sends_its_waiting_followers_away() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            fetching = asyncio.ensure_future(follower.call(follower_fetch(broker, 0, 7, wait_ms=60_000), V))
            await asyncio.sleep(0.1)
            before = loop.time()
            with_second_broker(broker, leader=2, isr=(2,), epoch=8)
            found = only(await fetching)
            assert (found.error_code, loop.time()) == (ErrorCode.FENCED_LEADER_EPOCH, before)
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 8)

    on_virtual_time(story)


@pytest.mark.rule("F2")
def test_a_fetch_that_waits_tells_where_it_stands_once() -> None:
    """Looking again for bytes is no new fetch: a follower that died while it waited must not seem alive."""

    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            request = follower_fetch(broker, 0, 7, wait_ms=60_000)
            request.min_bytes = 1 << 20
            follower.send(request, V)
            await asyncio.sleep(0.1)
            [state] = broker.replicas.partition(ORDERS).require_leader().followers.values()
            told_at = state.last_fetch_s
            await asyncio.sleep(5.0)
            await client.produce("orders", b"x", acks=1)
            assert (len(broker.fetch_purgatory), state.last_fetch_s) == (1, told_at)

    on_virtual_time(story)


@pytest.mark.rule("F2", "F5")
def test_a_follower_that_diverges_is_told_where_and_has_told_nothing() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"x", acks=1)
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=9)
            before = loop.time()
            found = only(await follower.call(follower_fetch(broker, 1, 9, wait_ms=5000, last_epoch=8), V))
            diverging = (found.diverging_epoch.epoch, found.diverging_epoch.end_offset)
            assert (found.error_code, diverging, found.records) == (ErrorCode.NONE, (7, 1), b"")
            assert loop.time() == before
            partition = broker.replicas.partition(ORDERS)
            assert [state.log_end_offset for state in partition.require_leader().followers.values()] == [-1]
            assert partition.log.high_watermark == 0

    on_virtual_time(story)


@pytest.mark.rule("F7", "W3")
def test_what_came_with_a_divergence_is_told_again() -> None:
    """The follower cuts its log and takes no offsets then: nothing may be written for hours after it."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1,), epoch=7)
            await client.produce("orders", b"x")
            with_second_broker(broker, leader=1, isr=(1,), epoch=9)
            before = loop.time()
            first = await follower.call(follower_fetch(broker, 2, 9, last_epoch=7, session=(0, 0)), V)
            assert only(first).diverging_epoch.end_offset == 1
            request = follower_fetch(broker, 1, 9, wait_ms=10_000, last_epoch=7, session=(first.session_id, 1))
            found = only(await follower.call(request, V))
            assert (found.high_watermark, found.records, loop.time()) == (1, b"", before)

    on_virtual_time(story)


@pytest.mark.rule("F7", "W3")
def test_in_a_new_leader_epoch_a_session_is_told_the_offsets_again() -> None:
    """Another leader may have cut both logs in between: what was told in an earlier epoch is worth nothing."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"x", acks=1)
            await client.produce("orders", b"y", acks=1)
            first = await follower.call(follower_fetch(broker, 2, 7, last_epoch=7, session=(0, 0)), V)
            assert only(first).high_watermark == 2
            with_second_broker(broker, leader=2, isr=(2,), epoch=8)
            broker.replicas.partition(ORDERS).log.truncate_to(1, 0)
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=9)
            before = loop.time()
            request = follower_fetch(broker, 1, 9, wait_ms=10_000, last_epoch=7, session=(first.session_id, 1))
            found = only(await follower.call(request, V))
            assert (found.high_watermark, found.records, loop.time()) == (1, b"", before)

    on_virtual_time(story)


@pytest.mark.rule("F7", "I3")
def test_what_lets_a_follower_join_while_its_fetch_waits_is_not_forgotten() -> None:
    """Only a new fetch proposes it. One that waits has to leave the partition to the next, not to the next walk."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1,), epoch=7)
            both = broker.image.brokers
            broker.replicas.context.brokers = {**both, 2: replace(both[2], fenced=True)}
            first = await follower.call(follower_fetch(broker, 0, 7, session=(0, 0)), V)
            request = follower_fetch(broker, 0, 7, wait_ms=100, session=(first.session_id, 1))
            waiting = asyncio.ensure_future(follower.call(request, V))
            await asyncio.sleep(0.05)
            partition = broker.replicas.partition(ORDERS)
            assert not partition.is_isr_pending()
            broker.replicas.context.brokers = both
            broker.replicas.on_progress(partition)
            await waiting
            assert loop.time() < SHORTEST_WALK_S
            request = follower_fetch(broker, 0, 7, session=(first.session_id, 2))
            request.topics = []
            await follower.call(request, V)
            assert partition.is_isr_pending()

    on_virtual_time(story)


@pytest.mark.rule("F7", "I3")
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "by newer metadata"])
def test_a_change_of_the_isr_that_is_over_lets_the_next_fetch_propose(answered: bool) -> None:
    """While it is under way it is not looked at; when it is over it has to be, without waiting for a walk."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            real, broker.controller = broker.controller, SilentController()
            registration = with_second_broker(broker, leader=1, isr=(1,), epoch=7)
            first = await follower.call(follower_fetch(broker, 0, 7, session=(0, 0)), V)
            partition = broker.replicas.partition(ORDERS)
            assert partition.is_isr_pending()
            await follower.call(follower_fetch(broker, 0, 7, session=(first.session_id, 1)), V)
            if answered:
                data = ResponsePartitionData(error_code=ErrorCode.OPERATION_NOT_ATTEMPTED)
                topic = ResponseTopicData(topic_id=partition.topic_id, partitions=[data])
                broker.replicas.on_isr_response(AlterPartitionResponse(topics=[topic]), loop.time())
            else:
                newer = registration._replace(partition_epoch=registration.partition_epoch + 1)
                broker.replicas._take_role(partition, newer, loop.time())
            assert not partition.is_isr_pending()
            await asyncio.sleep(0)
            assert loop.time() < SHORTEST_WALK_S
            again = follower_fetch(broker, 0, 7, session=(first.session_id, 2))
            again.topics = []
            await follower.call(again, V)
            assert partition.is_isr_pending()
            broker.controller = real

    on_virtual_time(story)


@pytest.mark.rule("F6")
def test_a_follower_is_told_the_end_of_the_log() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"x", acks=1)
            found = only(await follower.call(follower_fetch(broker, 5, 7), V))
            assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            ask = ListOffsetsPartition(partition_index=0, current_leader_epoch=7, timestamp=-1)
            topic = ListOffsetsTopic(name="orders", partitions=[ask])
            for replica_id, offset in ((2, 1), (-1, 0)):
                request = ListOffsetsRequest(replica_id=replica_id, topics=[topic])
                assert (await follower.call(request, 7)).topics[0].partitions[0].offset == offset

    on_virtual_time(story)


def delete_request(offset: int, timeout_ms: int = 5000) -> DeleteRecordsRequest:
    ask = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="orders", partitions=[ask])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def test_deleted_records_are_gone_when_no_live_replica_has_them() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower, admin = [await VirtualClient.connect() for _ in range(3)]
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"a", acks=1)
            await client.produce("orders", b"b", acks=1)
            first = await follower.call(follower_fetch(broker, 2, 7, session=(0, 0)), V)
            session = first.session_id
            request = follower_fetch(broker, 2, 7, wait_ms=60_000, session=(session, 1))
            fetching = asyncio.ensure_future(follower.call(request, V))
            await asyncio.sleep(0.1)
            before = loop.time()
            deleting = asyncio.ensure_future(admin.call(delete_request(1), 2))
            # The waiting follower hears of it at once, and tells that it has done the same.
            assert only(await fetching).log_start_offset == 1
            assert not deleting.done()
            await follower.call(follower_fetch(broker, 2, 7, log_start=1, session=(session, 2)), V)
            result = (await deleting).topics[0].partitions[0]
            assert (result.error_code, result.low_watermark, loop.time()) == (ErrorCode.NONE, 1, before)

            late = (await admin.call(delete_request(2, timeout_ms=300), 2)).topics[0].partitions[0]
            assert (late.error_code, round(loop.time() - before, 3)) == (ErrorCode.REQUEST_TIMED_OUT, 0.3)
            deleting = asyncio.ensure_future(admin.call(delete_request(2, timeout_ms=60_000), 2))
            await asyncio.sleep(0.1)
            with_second_broker(broker, leader=2, isr=(2,), epoch=8)
            moved = (await deleting).topics[0].partitions[0]
            assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert len(broker.produce_purgatory) == 0

    on_virtual_time(story)


@pytest.mark.rule("P3")
def test_a_producer_that_goes_away_is_not_waited_for() -> None:
    """Else whoever comes back again and again, while too few are in sync, would fill the memory."""

    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            client.send(produce_request("orders", batch(b"x"), timeout_ms=3_600_000), 9)
            await asyncio.sleep(0.1)
            assert len(broker.produce_purgatory) == 1
            client.writer.close()
            await asyncio.sleep(0.1)
            assert len(broker.produce_purgatory) == 0
            assert broker.replicas.partition(ORDERS).log.log_end_offset == 1

    on_virtual_time(story)
