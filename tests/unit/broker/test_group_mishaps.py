"""What a group coordinator does when its disk, its topics or its limits are not what it expects."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.test_group_coordinator import GROUP, PARTITION, FakeLog, Origin, World, play
from tests.unit.broker.virtual_node import VirtualClient, on_virtual_time, running_node

from tidelog.broker.auto_create import ensure_offsets_topic
from tidelog.broker.topic_directory import read_batches
from tidelog.coordinator.offsets_records import OffsetCommitValue, offset_record
from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.wire.records.plain import Record, encode_batch

OLD_ID = UUID(int=76 << 64)


class OnAThread:
    """As `ThreadOffload`, and virtual time stands still meanwhile."""

    async def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                results.append(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - raised below, where it was asked for
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]


def test_a_disk_that_fails_while_groups_load_is_dealt_with_on_the_event_loop() -> None:
    disk = MemoryDisk()
    told: list[int] = []

    async def story() -> None:
        async with running_node(disk, log_dirs="/data,/more", metadata_log_dir="/data") as broker:
            client = await VirtualClient.connect()
            places = {}
            for name in ("orders", "b"):
                await client.create_topic(name)
                await client.produce(name, b"x")
                log = broker.logs.get(TopicPartition(name, 0))
                assert log is not None
                places[log.directory.path] = name
            before = broker.logs.on_directory_offline

            def offline(directory: Any, error: Any) -> None:
                told.append(threading.get_ident())
                if threading.current_thread() is threading.main_thread():
                    before(directory, error)

            broker.logs.on_directory_offline = offline
            broker.offload = OnAThread()  # type: ignore[assignment]
            disk.fault = lambda operation, path: errno.EIO if operation == "pread" and "/more/" in path else None
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                [batches async for batches in read_batches(broker, TopicPartition(places["/more"], 0))]
            disk.fault = None

    on_virtual_time(story)
    assert told == [threading.main_thread().ident]


def stale(log: FakeLog) -> None:
    """An offset in "t", which was deleted and made anew while the partition had no coordinator, or was loading."""
    value = OffsetCommitValue(
        offset=1000,
        leader_epoch=-1,
        metadata="",
        commit_timestamp=1_700_000_000_000,
        expire_timestamp=-1,
        topic_id=OLD_ID,
    )
    key, text = offset_record(GROUP, "t", 0, value)
    partition = TopicPartition("__consumer_offsets", PARTITION)
    log.batches[partition] = [encode_batch([Record(timestamp=0, key=key, value=text)])]


@pytest.mark.parametrize("version", [1, 5, 7, 8, 9, 10])
def test_an_offset_in_a_deleted_topic_is_not_told_to_readers_of_its_successor(version: int) -> None:
    async def story(world: World) -> None:
        stale(world.log)
        world.service.on_election(PARTITION, 0)
        # It loads: nothing is written.
        world.service.on_topics_deleted(["t"])
        await asyncio.sleep(1)
        response = await world.fetch(version)
        topics = response.topics if version < 8 else response.groups[0].topics
        assert topics[0].partitions[0].committed_offset == -1

    play(story)


def test_nor_to_who_asks_for_all() -> None:
    async def story(world: World) -> None:
        stale(world.log)
        await world.elected()
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])

        async def all_of_it() -> list[tuple[str, int, int]]:
            (group,) = (await world.service.offset_fetch(Origin(9), request)).groups
            return [(t.name, p.partition_index, p.committed_offset) for t in group.topics for p in t.partitions]

        assert await all_of_it() == []
        assert await world.commit(7) is E.NONE
        assert await all_of_it() == [("t", 0, 7)]

    play(story)


def test_a_commit_on_its_way_when_its_topic_is_deleted_is_forgotten_too() -> None:
    async def story(world: World) -> None:
        await world.elected()
        world.log.gate.clear()
        commit = asyncio.ensure_future(world.commit(1000))
        await asyncio.sleep(0.1)
        world.service.on_topics_deleted(["t"])
        world.log.gate.set()
        assert await commit is E.NONE
        await asyncio.sleep(0.1)
        assert await world.offset() == -1

    play(story)


def test_commits_that_fit_one_by_one_are_stored_whatever_the_limit_of_the_topic() -> None:
    """What is decided while a batch is written goes into the next one together."""

    async def story() -> None:
        async with running_node(MemoryDisk(), message_max_bytes="20000", offsets_topic_num_partitions="1") as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            await ensure_offsets_topic(broker)
            await asyncio.sleep(2)

            def request(number: int) -> OffsetCommitRequest:
                told = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m" * 100)
                topic = OffsetCommitRequestTopic(name="orders", partitions=[told])
                return OffsetCommitRequest(group_id=f"group-{number}", topics=[topic])

            answers = await asyncio.gather(
                *(broker.groups.offset_commit(Origin(9), request(number)) for number in range(300))
            )
            assert {E(answer.topics[0].partitions[0].error_code) for answer in answers} == {E.NONE}

    on_virtual_time(story)


def test_groups_are_loaded_again_after_a_failure_that_passes() -> None:
    """A segment that the cleaner replaced, and whose file was removed before it was read: KAFKA_STORAGE_ERROR."""

    async def story(world: World) -> None:
        await world.elected()
        assert await world.commit(7) is E.NONE
        world.service.on_resignation(PARTITION)
        read = world.log.read
        failures = [ApiError(E.KAFKA_STORAGE_ERROR, "00000000000000000000.log.deleted has been deleted")] * 2

        async def failing_twice(topic_partition: TopicPartition) -> AsyncIterator[Buffer]:
            if failures:
                raise failures.pop()
            async for batch in read(topic_partition):
                yield batch

        world.service._ports = replace(world.service._ports, read=failing_twice)
        world.service.on_election(PARTITION, 1)
        await asyncio.sleep(2)
        assert await world.commit(8) is E.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(2)
        assert await world.offset() == 7

    play(story)


def test_an_offset_kept_for_ever_is_kept() -> None:
    """v2 to v4 let a client say for how long; Java's Long.MAX_VALUE is how one says for ever."""

    async def story(world: World) -> None:
        await world.elected()
        topic = OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
        )
        request = OffsetCommitRequest(group_id=GROUP, topics=[topic], retention_time_ms=2**63 - 1)
        response = await world.service.offset_commit(Origin(3), request)
        assert response.topics[0].partitions[0].error_code == E.NONE
        assert await world.offset() == 3

    play(story)
