"""A whole node on virtual time, in-memory transports and an in-memory disk: the same seed, the same trace."""

import asyncio
import hashlib
import random
import struct
from typing import Any

import pytest

from tidelog.broker.format import format_directories
from tidelog.broker.node import Node
from tidelog.broker.offload import InlineOffload
from tidelog.core.config.node import NodeConfig
from tidelog.sim.loop import VirtualLoop
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.codec import RESPONSE_LIMITS, encode_frame, read_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records.plain import Record, decode_batch, encode_batch
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data/a,/data/b",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "log.segment.bytes": "1048576",
}
START_MS = 1_700_000_000_000


class VirtualClock:
    """Wall time that goes with the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000)


class Client:
    """Speaks to the node over the virtual network, and keeps every byte that came back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trace: "Trace") -> None:
        self._reader = reader
        self._writer = writer
        self._trace = trace
        self._correlation_id = 0

    async def call(self, request: Any, version: int) -> Any:
        key = spec_of(type(request)).api_key
        self._correlation_id += 1
        header = write_request_header(key, version, self._correlation_id, "sim")
        self._writer.writelines(encode_frame(request, version, header))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        self._trace.add(APIS[key].name, frame)
        _, position = read_response_header(key, version, memoryview(frame))
        return read_message(APIS[key].response, version, frame, position=position, limits=RESPONSE_LIMITS)


class Trace:
    """What happened, byte for byte, and when."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.lines: list[str] = []

    def add(self, what: str, data: bytes) -> None:
        self.lines.append(f"{self._loop.time():.6f} {what} {hashlib.sha256(data).hexdigest()[:16]}")


async def connect(trace: Trace) -> Client:
    reader, writer = await asyncio.open_connection("127.0.0.1", 9092)
    return Client(reader, writer, trace)


def start_node(disk: MemoryDisk, rng: random.Random, loop: asyncio.AbstractEventLoop) -> Node:
    config, _ = NodeConfig.parse(PROPERTIES)
    return Node(config, disk=disk, wall_clock=VirtualClock(loop), offload=InlineOffload(), rng=rng)


def batch(*values: bytes) -> bytes:
    return encode_batch([Record(timestamp=START_MS, key=None, value=value) for value in values])


def produce(records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])])


def fetch(offset: int, wait_ms: int = 500) -> FetchRequest:
    ask = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[ask])])


async def story(seed: int, disk: MemoryDisk) -> list[str]:
    loop = asyncio.get_running_loop()
    rng = random.Random(seed)
    config, _ = NodeConfig.parse(PROPERTIES)
    format_directories(disk, config, None, rng, START_MS)
    trace = Trace(loop)
    node = start_node(disk, rng, loop)
    await node.start()
    client = await connect(trace)
    made = await client.call(
        CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]), 7
    )
    assert made.topics[0].error_code == ErrorCode.NONE
    await client.call(MetadataRequest(topics=None), 12)
    await client.call(InitProducerIdRequest(transactional_id=None), 4)
    for number in range(20):
        answer = (await client.call(produce(batch(b"%d" % number, b"x" * number)), 9)).responses[0]
        assert answer.partition_responses[0].base_offset == 2 * number
    # A fetch at the end waits, and what is produced by another client ends the wait.
    waiting = asyncio.ensure_future((await connect(trace)).call(fetch(40), 12))
    before = loop.time()
    await client.call(produce(batch(b"late")), 9)
    found = (await waiting).responses[0].partitions[0]
    assert loop.time() - before < 0.5
    _, records = decode_batch(memoryview(found.records))
    assert [record.value for record in records] == [b"late"]
    # Nothing comes: the long poll ends by virtual time.
    before = loop.time()
    empty = (await client.call(fetch(41), 12)).responses[0].partitions[0]
    assert (len(empty.records), round(loop.time() - before, 3)) == (0, 0.5)
    assert (await client.call(FindCoordinatorRequest(key="g"), 3)).error_code == ErrorCode.NONE
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="m")
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])])
    committed = await client.call(commit, 8)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    await node.stop()
    # The same directories again: everything is there, in a later leader epoch.
    node = start_node(disk, rng, loop)
    await node.start()
    client = await connect(trace)
    again = (await client.call(fetch(0), 12)).responses[0].partitions[0]
    assert again.high_watermark == 41
    await client.call(produce(batch(b"after")), 9)
    await asyncio.sleep(120)
    await node.stop()
    return trace.lines


def run(seed: int) -> list[str]:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(story(seed, MemoryDisk()))
    finally:
        loop.close()


def test_a_node_boots_serves_and_restarts_on_virtual_time() -> None:
    assert len(run(1)) > 25


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    assert run(seed) == run(seed)


def test_another_seed_gives_other_ids() -> None:
    assert run(1) != run(2)
