"""What a running node does to its logs by itself, as time goes by: segments roll, expire, are synced."""

import asyncio
import copy

import pytest
from tests.unit.broker.virtual_node import (
    START_MS,
    LosesEverything,
    VirtualClient,
    on_virtual_time,
    produce_request,
    running_node,
)

from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.records.plain import Record, encode_batch

EARLIEST = -2
# log.initial.task.delay.ms and log.retention.check.interval.ms; files that were set aside go at the look after.
FIRST_LOOK_S, BETWEEN_LOOKS_S = 30, 300


async def log_start(client: VirtualClient) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[asked])])
    answer = (await client.call(request, 7)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return int(answer.offset)


def segments(disk: MemoryDisk) -> list[int]:
    """Base offsets of the segment files, those that wait for their removal too."""
    names = disk.list_dir("/data/orders-0")
    return sorted(int(name.split(".")[0]) for name in names if ".log" in name)


async def write(client: VirtualClient, count: int) -> None:
    """One batch of one record a second, with the time of the clock."""
    for _ in range(count):
        now_ms = START_MS + int(asyncio.get_running_loop().time() * 1000)
        records = encode_batch([Record(timestamp=now_ms, key=None, value=b"x" * 400)])
        answer = await client.call(produce_request("orders", records), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        await asyncio.sleep(1)


def test_what_is_older_than_retention_ms_is_deleted_the_active_segment_too() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", retention_ms="60000")
            await write(client, 5)
            assert (await log_start(client), segments(disk)) == (0, [0])
            await asyncio.sleep(FIRST_LOOK_S + BETWEEN_LOOKS_S)
            assert await log_start(client) == 5
            await asyncio.sleep(BETWEEN_LOOKS_S)
            assert segments(disk) == [5]
            await write(client, 1)
        async with running_node(disk):
            assert await log_start(await VirtualClient.connect()) == 5

    on_virtual_time(story)


def test_what_is_beyond_retention_bytes_is_deleted_by_whole_segments() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", retention_bytes="1500", internal_segment_bytes="1000")
            await write(client, 10)
            assert segments(disk) == [0, 2, 4, 6, 8]
            await asyncio.sleep(FIRST_LOOK_S + BETWEEN_LOOKS_S)
            kept = segments(disk)
            size = sum(disk.open(f"/data/orders-0/{base:020}.log").size() for base in kept)
            assert kept == [6, 8] and size >= 1500
            assert await log_start(client) == 6

    on_virtual_time(story)


def test_a_segment_rolls_at_the_first_write_after_segment_ms() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", segment_ms="10000")
            await write(client, 5)
            assert segments(disk) == [0]
            await asyncio.sleep(10)
            assert segments(disk) == [0]
            await write(client, 1)
            assert segments(disk) == [0, 5]

    on_virtual_time(story)


@pytest.mark.parametrize(("config", "kept"), [({}, 0), ({"flush_ms": "2000"}, 470)], ids=["without", "with flush.ms"])
def test_flush_ms_bounds_what_a_power_cut_takes(config: dict[str, str], kept: int) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", **config)
            await asyncio.sleep(FIRST_LOOK_S)
            await write(client, 1)
            await asyncio.sleep(5)
            left = copy.deepcopy(disk)
        left.crash(LosesEverything())
        assert left.file_size("/data/orders-0/00000000000000000000.log") == kept

    on_virtual_time(story)
