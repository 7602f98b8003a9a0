"""The passes over a node's logs: what a flush on another thread may not miss."""

import asyncio
import errno
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.virtual_node import PROPERTIES, START_MS, batch

from tidelog.broker.maintenance import Maintenance
from tidelog.broker.offload import ThreadOffload
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7777)
CONFIG = TopicConfig(segment_bytes=200)


class Clock:
    def now_ms(self) -> int:
        return START_MS


class SlowOffload(ThreadOffload):
    """Work that a test lets go."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        def later() -> Any:
            self.begun.set()
            assert self.go_on.wait(10)
            return function(*args, **kwargs)

        return super().__call__(later)


@contextmanager
def slow() -> Iterator[SlowOffload]:
    offload = SlowOffload()
    try:
        yield offload
    finally:
        offload.go_on.set()
        offload.close()


def opened(disk: MemoryDisk, config: NodeConfig) -> LogManager:
    disk.make_dirs("/data")
    logs = LogManager(disk, config, random.Random(3))
    logs.open()
    logs.load(lambda topic: CONFIG, START_MS)
    log = logs.get_or_create(ORDERS, TOPIC_ID, CONFIG, START_MS)
    for _ in range(5):
        log.append_as_leader(memoryview(bytearray(batch(b"x" * 50))), 0, START_MS)
    return logs


@pytest.mark.rule("C5")
def test_a_shutdown_waits_for_the_flush_that_is_under_way() -> None:
    disk = MemoryDisk()
    config, _ = NodeConfig.parse(PROPERTIES | {"log.initial.task.delay.ms": "0"})
    logs = opened(disk, config)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with slow() as offload:
            maintenance = Maintenance(loop, config, disk, logs, Clock(), offload)
            await loop.run_in_executor(None, offload.begun.wait, 10)
            stopping = asyncio.ensure_future(maintenance.stop())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not stopping.done()
            disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
            offload.go_on.set()
            await stopping
            disk.fault = None
            assert not logs.is_online("/data")
            logs.close_cleanly(3, START_MS)
            assert not disk.exists("/data/.kafka_cleanshutdown")

    asyncio.run(story())


def test_a_topic_deleted_while_others_are_flushed_does_no_harm() -> None:
    disk = MemoryDisk()
    config, _ = NodeConfig.parse(PROPERTIES | {"log.initial.task.delay.ms": "0"})
    logs = opened(disk, config)
    other = logs.get_or_create(TopicPartition("payments", 0), UUID(int=8888), CONFIG, START_MS)
    for _ in range(5):
        other.append_as_leader(memoryview(bytearray(batch(b"x" * 50))), 0, START_MS)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        with slow() as offload:
            maintenance = Maintenance(loop, config, disk, logs, Clock(), offload)
            await loop.run_in_executor(None, offload.begun.wait, 10)
            # One of the two is being flushed, the other comes next.
            logs.delete(ORDERS)
            logs.delete(TopicPartition("payments", 0))
            offload.go_on.set()
            await maintenance.flush()
            await maintenance.stop()
            assert logs.is_online("/data")

    asyncio.run(story())
