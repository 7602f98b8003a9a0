"""Fetch over the wire to a whole node: waiting, limits, sessions, ranges."""

import asyncio

import pytest
from tests.unit.broker.virtual_node import (
    VirtualClient,
    batch,
    fetch_request,
    on_virtual_time,
    produce_request,
    running_node,
)

from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.records.batch import read_header

ORDERS = TopicPartition("orders", 0)


@pytest.mark.rule("F3")
def test_a_fetch_waits_for_its_bytes_and_no_longer_than_asked() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            reader, writer = await VirtualClient.connect(), await VirtualClient.connect()
            await writer.create_topic("orders")
            size = len(batch(b"x"))
            waiting = asyncio.ensure_future(
                reader.call(fetch_request("orders", 0, wait_ms=10_000, min_bytes=2 * size), 12)
            )
            await asyncio.sleep(0.1)
            await writer.produce("orders", b"x")
            await asyncio.sleep(0.1)
            assert not waiting.done()
            before = loop.time()
            await writer.produce("orders", b"y")
            found = (await waiting).responses[0].partitions[0]
            assert (len(found.records), loop.time()) == (2 * size, before)
            before = loop.time()
            empty = (await reader.call(fetch_request("orders", 2, wait_ms=300), 12)).responses[0].partitions[0]
            assert (len(empty.records), round(loop.time() - before, 3)) == (0, 0.3)
            assert (len(broker.fetch_purgatory), broker.fetch_purgatory.watched_keys()) == (0, 0)

    on_virtual_time(story)


@pytest.mark.rule("F3")
def test_an_error_ends_the_wait_at_once() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            before = loop.time()
            found = (await client.call(fetch_request("orders", 5, wait_ms=10_000), 12)).responses[0].partitions[0]
            assert (found.error_code, loop.time()) == (ErrorCode.OFFSET_OUT_OF_RANGE, before)

    on_virtual_time(story)


@pytest.mark.rule("F3")
def test_a_topic_deleted_under_a_waiting_fetch_ends_it() -> None:
    from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()):
            reader, admin = await VirtualClient.connect(), await VirtualClient.connect()
            await admin.create_topic("orders")
            waiting = asyncio.ensure_future(reader.call(fetch_request("orders", 0, wait_ms=60_000), 12))
            await asyncio.sleep(0.1)
            before = loop.time()
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000)
            assert (await admin.call(request, 6)).responses[0].error_code == ErrorCode.NONE
            found = (await waiting).responses[0].partitions[0]
            assert found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR)
            assert loop.time() - before < 1

    on_virtual_time(story)


def test_a_reader_that_goes_away_is_not_waited_for() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            reader, admin = await VirtualClient.connect(), await VirtualClient.connect()
            await admin.create_topic("orders")
            reader.send(fetch_request("orders", 0, wait_ms=60_000), 12)
            await asyncio.sleep(0.1)
            assert len(broker.fetch_purgatory) == 1
            reader.writer.close()
            await asyncio.sleep(0.1)
            assert len(broker.fetch_purgatory) == 0

    on_virtual_time(story)


@pytest.mark.rule("F4")
def test_batches_come_whole_and_the_first_even_when_too_large() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await client.produce("orders", b"a", b"b", b"c")
            await client.produce("orders", b"x" * 5000)
            await client.produce("orders", b"y" * 5000)
            inside = (await client.call(fetch_request("orders", 1), 12)).responses[0].partitions[0]
            assert read_header(memoryview(inside.records)).base_offset == 0
            ask = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=10)
            small = FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=10, topics=[FetchTopic(topic="orders", partitions=[ask])]
            )
            found = (await client.call(small, 12)).responses[0].partitions[0]
            assert len(found.records) == len(batch(b"x" * 5000))

    on_virtual_time(story)


@pytest.mark.rule("F4")
def test_only_the_first_non_empty_partition_may_exceed_the_limits() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            for topic in ("a", "b", "c"):
                await client.create_topic(topic)
            for topic in ("b", "c"):
                await client.call(produce_request(topic, batch(b"z" * 3000)), 9)
            asks = [
                FetchTopic(
                    topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)]
                )
                for topic in ("a", "b", "c")
            ]
            request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100, topics=asks)
            sizes = [len(topic.partitions[0].records) for topic in (await client.call(request, 12)).responses]
            assert sizes == [0, len(batch(b"z" * 3000)), 0]

    on_virtual_time(story)


@pytest.mark.rule("F7")
def test_an_incremental_session_answers_with_news_only() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client, writer = await VirtualClient.connect(), await VirtualClient.connect()
            for topic in ("a", "b"):
                await client.create_topic(topic)
            topics = [
                FetchTopic(
                    topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
                )
                for topic in ("a", "b")
            ]
            first = await client.call(FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics), 12)
            assert first.session_id > 0
            assert [topic.topic for topic in first.responses] == ["a", "b"]
            quiet = await client.call(
                FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=1, topics=[]), 12
            )
            assert quiet.responses == []
            await writer.produce("b", b"x")
            news = await client.call(
                FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=2, topics=[]), 12
            )
            assert [topic.topic for topic in news.responses] == ["b"]
            wrong = await client.call(
                FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=9, topics=[]), 12
            )
            assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert len(broker.fetch_sessions) == 1

    on_virtual_time(story)


@pytest.mark.rule("F7")
def test_a_session_does_not_read_another_topic_that_took_the_name() -> None:
    from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client, admin = await VirtualClient.connect(), await VirtualClient.connect()
            await admin.create_topic("orders")
            await admin.produce("orders", b"old")
            old_id = broker.image.topics_by_name["orders"].topic_id
            ask = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
            topics = [FetchTopic(topic_id=old_id, partitions=[ask])]
            first = await client.call(FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics), 17)
            assert first.responses[0].partitions[0].error_code == ErrorCode.NONE
            await admin.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000), 6)
            await admin.create_topic("orders")
            await admin.produce("orders", b"new", b"newer")
            again = await client.call(
                FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=1, topics=[]), 17
            )
            (found,) = again.responses[0].partitions
            assert (found.error_code, bytes(found.records)) == (ErrorCode.INCONSISTENT_TOPIC_ID, b"")

    on_virtual_time(story)


@pytest.mark.rule("F7")
def test_a_session_serves_its_partitions_in_turn_when_not_all_fit() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client, writer = await VirtualClient.connect(), await VirtualClient.connect()
            names = ("a", "b", "c")
            for name in names:
                await writer.create_topic(name)
                await writer.produce(name, b"x" * 500)
            asks = [
                FetchTopic(
                    topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)]
                )
                for name in names
            ]
            first = await client.call(FetchRequest(max_wait_ms=0, max_bytes=600, session_epoch=0, topics=asks), 12)
            served = [topic.topic for topic in first.responses if topic.partitions[0].records]
            # The reader asks for the same again: as one does that is always behind on every partition.
            for epoch in (1, 2, 3):
                request = FetchRequest(
                    max_wait_ms=0, max_bytes=600, session_id=first.session_id, session_epoch=epoch, topics=[]
                )
                answer = await client.call(request, 12)
                served += [topic.topic for topic in answer.responses if topic.partitions[0].records]
            assert served == ["a", "b", "c", "a"]

    on_virtual_time(story)


def test_records_that_must_be_read_from_the_device_are_read_away_from_the_loop() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await client.produce("orders", b"x")
            disk.all_cached = False
            for wait_ms in (0, 500):
                found = (await client.call(fetch_request("orders", 0, wait_ms=wait_ms), 12)).responses[0].partitions[0]
                assert len(found.records) == len(batch(b"x"))
            disk.fault = lambda operation, path: 5 if operation == "pread" and path.endswith(".log") else None
            failed = (await client.call(fetch_request("orders", 0), 12)).responses[0].partitions[0]
            assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            disk.fault = None
            await asyncio.sleep(0)
            assert not broker.background

    on_virtual_time(story)
