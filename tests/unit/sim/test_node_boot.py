"""A whole node on virtual time, in-memory transports and an in-memory disk: the same seed, the same trace."""

import asyncio
import hashlib

import pytest
from tests.unit.broker.virtual_node import VirtualClient, fetch_request, running_node

from tidelog.sim.loop import VirtualLoop
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.records.plain import decode_batch
from tidelog.wire.registry import APIS

TWO_DIRECTORIES = {"log_dirs": "/data/a,/data/b", "log_segment_bytes": "1048576"}


class Trace:
    """What came back, byte for byte, and when."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def connect(self) -> VirtualClient:
        loop = asyncio.get_running_loop()
        client = await VirtualClient.connect()
        client.on_frame = lambda key, frame: self.lines.append(
            f"{loop.time():.6f} {APIS[key].name} {hashlib.sha256(frame).hexdigest()[:16]}"
        )
        return client


async def story(seed: int) -> list[str]:
    loop = asyncio.get_running_loop()
    disk, trace = MemoryDisk(), Trace()
    async with running_node(disk, seed, **TWO_DIRECTORIES):
        client = await trace.connect()
        await client.create_topic("orders")
        await client.call(MetadataRequest(topics=None), 12)
        await client.call(InitProducerIdRequest(transactional_id=None), 4)
        for number in range(20):
            assert (await client.produce("orders", b"%d" % number, b"x" * number)).base_offset == 2 * number
        # A fetch at the end waits, and what another client produces ends the wait.
        waiting = asyncio.ensure_future((await trace.connect()).call(fetch_request("orders", 40), 12))
        await asyncio.sleep(0.1)
        before = loop.time()
        await client.produce("orders", b"late")
        found = (await waiting).responses[0].partitions[0]
        assert loop.time() == before
        _, records = decode_batch(memoryview(found.records))
        assert [record.value for record in records] == [b"late"]
        # Nothing comes: the long poll ends by virtual time.
        empty = (await client.call(fetch_request("orders", 41), 12)).responses[0].partitions[0]
        assert (len(empty.records), round(loop.time() - before, 3)) == (0, 0.5)
        assert (await client.call(FindCoordinatorRequest(key="g"), 3)).error_code == ErrorCode.NONE
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="m")
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        committed = await client.call(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    # The same directories again: everything is there.
    async with running_node(disk, seed + 1000, **TWO_DIRECTORIES):
        client = await trace.connect()
        again = (await client.call(fetch_request("orders", 0), 12)).responses[0].partitions[0]
        assert again.high_watermark == 41
        assert (await client.produce("orders", b"after")).base_offset == 41
        await asyncio.sleep(120)
    return trace.lines


def run(seed: int) -> list[str]:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(story(seed))
    finally:
        loop.close()


def test_a_node_boots_serves_and_restarts_on_virtual_time() -> None:
    assert len(run(1)) > 25


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    assert run(seed) == run(seed)


def test_another_seed_gives_other_ids() -> None:
    assert run(1) != run(2)
