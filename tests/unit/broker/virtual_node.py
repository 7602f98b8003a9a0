"""A whole node on virtual time for handler tests: real handlers, real log, no socket and no file."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.format import format_directories
from tidelog.broker.node import Node
from tidelog.broker.offload import InlineOffload
from tidelog.core.config.node import NodeConfig
from tidelog.sim.loop import VirtualLoop
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.codec import RESPONSE_LIMITS, encode_frame, read_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records.plain import Record, encode_batch
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
}
START_MS = 1_700_000_000_000


class VirtualClock:
    """Wall time that goes with the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000)


class VirtualClient:
    """One connection to the node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0
        # Hears of every response: the API's key and the frame.
        self.on_frame: Callable[[int, bytes], None] = lambda key, frame: None

    @classmethod
    async def connect(cls) -> "VirtualClient":
        return cls(*await asyncio.open_connection("127.0.0.1", 9092))

    def send(self, request: Any, version: int) -> None:
        self._correlation_id += 1
        header = write_request_header(spec_of(type(request)).api_key, version, self._correlation_id, "test")
        self.writer.writelines(encode_frame(request, version, header))

    async def receive(self, key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        self.on_frame(key, frame)
        _, position = read_response_header(key, version, memoryview(frame))
        return read_message(APIS[key].response, version, frame, position=position, limits=RESPONSE_LIMITS)

    async def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return await self.receive(spec_of(type(request)).api_key, version)

    async def create_topic(self, name: str, **config: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
        )
        response = await self.call(CreateTopicsRequest(topics=[topic]), 7)
        assert response.topics[0].error_code == ErrorCode.NONE, response

    async def produce(self, topic: str, *values: bytes, acks: int = -1, version: int = 9) -> PartitionProduceResponse:
        response = await self.call(produce_request(topic, batch(*values), acks), version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer


class LosesEverything(random.Random):
    """A power cut at its worst: no byte that was not synced is kept."""

    def random(self) -> float:
        return 0.0


def batch(*values: bytes) -> bytes:
    return encode_batch([Record(timestamp=START_MS, key=None, value=value) for value in values])


def produce_request(topic: str, records: bytes, acks: int = -1, timeout_ms: int = 1000) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(topic: str, offset: int, *, wait_ms: int = 500, min_bytes: int = 1) -> FetchRequest:
    ask = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic=topic, partitions=[ask])])


@asynccontextmanager
async def running_node(disk: MemoryDisk, seed: int = 7, /, **properties: str) -> AsyncIterator[Broker]:
    """A node on this disk (formatted if need be), stopped in order at the end."""
    loop = asyncio.get_running_loop()
    rng = random.Random(seed)
    given = PROPERTIES | {key.replace("_", "."): value for key, value in properties.items()}
    config, _ = NodeConfig.parse(given)
    format_directories(disk, config, None, rng, START_MS)
    node = Node(config, disk=disk, wall_clock=VirtualClock(loop), offload=InlineOffload(), rng=rng)
    await node.start()
    assert node.broker is not None
    try:
        yield node.broker
    finally:
        await node.stop()


def on_virtual_time(story: Callable[[], Awaitable[None]]) -> None:
    """Runs a test's story on a loop of its own."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
