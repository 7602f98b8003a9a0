"""A node with two log directories, one of which fails: the other serves on, old topics and new (C10)."""

import errno

import pytest
from tests.unit.broker.virtual_node import VirtualClient, fetch_request, on_virtual_time, running_node

from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

pytestmark = pytest.mark.rule("C10")
DIRS = {"log_dirs": "/data,/more", "metadata_log_dir": "/data"}


async def delete_topic(client: VirtualClient, name: str) -> None:
    response = await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000), 6)
    assert response.responses[0].error_code == ErrorCode.NONE


def broken(operation: str, path: str) -> int | None:
    return errno.EIO if path.startswith("/more/") else None


def test_topics_are_made_where_a_directory_is_left() -> None:
    disk = MemoryDisk()

    async def story() -> None:
        async with running_node(disk, **DIRS) as broker:
            client = await VirtualClient.connect()
            for name in ("a", "b"):
                await client.create_topic(name)
                assert (await client.produce(name, b"x")).error_code == ErrorCode.NONE
            homes = {name: broker.logs.get(TopicPartition(name, 0)) for name in ("a", "b")}
            (lost,) = [name for name, log in homes.items() if log is not None and log.dir.startswith("/more/")]
            disk.fault = broken
            assert (await client.produce(lost, b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await client.create_topic("c")
            assert (await client.produce("c", b"z")).error_code == ErrorCode.NONE
            # Its files cannot be moved now; the name is free all the same.
            await delete_topic(client, lost)
            await client.create_topic(lost)
            assert (await client.produce(lost, b"new")).error_code == ErrorCode.NONE
        disk.fault = None
        async with running_node(disk, **DIRS) as broker:
            assert (broker.logs.is_online("/data"), broker.logs.is_online("/more")) == (True, True)
            client = await VirtualClient.connect()
            found = (await client.call(fetch_request(lost, 0), 12)).responses[0].partitions[0]
            assert b"new" in bytes(found.records)
            assert found.high_watermark == 1

    on_virtual_time(story)


def test_an_empty_log_and_its_twin_in_another_directory_do_not_stop_the_node() -> None:
    disk = MemoryDisk()

    async def story() -> None:
        async with running_node(disk, **DIRS) as broker:
            client = await VirtualClient.connect()
            for name in ("a", "b"):
                await client.create_topic(name)
                await client.produce(name, b"x")
            homes = {name: broker.logs.get(TopicPartition(name, 0)) for name in ("a", "b")}
        for name, log in homes.items():
            assert log is not None
            other = "/more" if log.dir.startswith("/data/") else "/data"
            disk.make_dirs(f"{other}/{name}-0")
            disk.open(f"{other}/{name}-0/00000000000000000000.log", create=True)
        async with running_node(disk, **DIRS) as broker:
            assert (broker.logs.is_online("/data"), broker.logs.is_online("/more")) == (True, True)
            for name in ("a", "b"):
                log = broker.logs.get(TopicPartition(name, 0))
                assert log is not None
                assert log.log_end_offset == 1

    on_virtual_time(story)
