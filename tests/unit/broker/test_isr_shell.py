"""The timer and the sender of ISR changes in a whole node, with a controller that answers as it is told to."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.broker.second_broker import ORDERS, follower_fetch, with_second_broker
from tests.unit.broker.virtual_node import (
    LosesEverything,
    VirtualClient,
    on_virtual_time,
    running_node,
)

from tidelog.broker.broker import Broker
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

LAG_S = 30.0


class Controller:
    """Holds requests until it is told what to answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.requests: asyncio.Queue[AlterPartitionRequest] = asyncio.Queue()
        self._answers: asyncio.Queue[Callable[[], AlterPartitionResponse]] = asyncio.Queue()
        self.under_way = 0

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        assert self.under_way == 0, "one request at a time"
        self.under_way += 1
        try:
            self.requests.put_nowait(request)
            return (await self._answers.get())()
        finally:
            self.under_way -= 1

    def fail(self) -> None:
        def lost() -> AlterPartitionResponse:
            raise ConnectionError("gone")

        self._answers.put_nowait(lost)

    def answer(self, request: AlterPartitionRequest, error: ErrorCode = ErrorCode.NONE) -> None:
        [topic] = request.topics
        [asked] = topic.partitions
        data = ResponsePartitionData(
            partition_index=0,
            error_code=error,
            leader_id=1,
            leader_epoch=asked.leader_epoch,
            isr=[member.broker_id for member in asked.new_isr_with_epochs],
            partition_epoch=asked.partition_epoch + 1,
        )
        response = AlterPartitionResponse(topics=[ResponseTopicData(topic_id=topic.topic_id, partitions=[data])])
        self._answers.put_nowait(lambda: response)


def members(request: AlterPartitionRequest) -> list[int]:
    return [member.broker_id for member in request.topics[0].partitions[0].new_isr_with_epochs]


def isr(broker: Broker) -> set[int]:
    return set(broker.replicas.partition(ORDERS).require_leader().isr_state.isr)


@pytest.mark.rule("I2", "I5")
def test_a_silent_follower_is_found_by_the_timer_and_what_waits_is_acknowledged_then() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            real, broker.controller = broker.controller, (controller := Controller(loop))
            registration = with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            before = loop.time()
            producing = asyncio.ensure_future(client.produce("orders", b"x"))
            request = await controller.requests.get()
            assert members(request) == [1]
            assert LAG_S < loop.time() - before <= 1.5 * LAG_S
            assert request.broker_epoch == broker.image.brokers[1].epoch
            # Lost: it is asked again, unchanged, after a pause.
            controller.fail()
            again = await controller.requests.get()
            assert again.topics == request.topics
            producing.cancel()
            await (await VirtualClient.connect()).produce("orders", b"y", acks=1)
            assert isr(broker) == {1, 2}
            assert broker.replicas.partition(ORDERS).log.high_watermark == 0
            controller.answer(again)
            await asyncio.sleep(0.01)
            # The answer alone lets nobody go: the metadata does, with the minimum that holds then.
            partition = broker.replicas.partition(ORDERS)
            assert (isr(broker), partition.log.high_watermark) == ({1, 2}, 0)
            shrunk = registration._replace(isr=(1,), partition_epoch=registration.partition_epoch + 1)
            assert partition.apply(shrunk, loop.time()).high_watermark_moved
            assert (isr(broker), partition.log.high_watermark) == ({1}, 2)
            broker.controller = real

    on_virtual_time(story)


@pytest.mark.rule("I2", "I5")
def test_a_follower_that_catches_up_is_proposed_by_its_fetch() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            real, broker.controller = broker.controller, (controller := Controller(loop))
            with_second_broker(broker, leader=1, isr=(1,), epoch=7)
            await client.produce("orders", b"x")
            before = loop.time()
            await follower.call(follower_fetch(broker, 0, 7), 17)
            await asyncio.sleep(0.01)
            assert controller.requests.empty()
            await follower.call(follower_fetch(broker, 1, 7), 17)
            request = await controller.requests.get()
            assert members(request) == [1, 2]
            # A write counts the newcomer from now on, and is acknowledged by its fetch, answered or not.
            producing = asyncio.ensure_future(client.produce("orders", b"y"))
            await asyncio.sleep(0.2)
            assert not producing.done()
            await follower.call(follower_fetch(broker, 2, 7), 17)
            assert (await producing).error_code == ErrorCode.NONE
            controller.answer(request, ErrorCode.NOT_CONTROLLER)
            controller.answer(await controller.requests.get())
            await asyncio.sleep(0.01)
            assert isr(broker) == {1, 2}
            assert loop.time() - before < 1
            broker.controller = real

    on_virtual_time(story)


@pytest.mark.rule("I5")
def test_a_single_replica_that_lost_power_gets_out_of_recovering() -> None:
    disk = MemoryDisk()
    left: list[MemoryDisk] = []

    async def write() -> None:
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", flush_messages="1")
            await client.produce("orders", b"x")
            left.append(copy.deepcopy(disk))
            left[0].crash(LosesEverything())

    async def again() -> None:
        async with running_node(left[0]) as broker:
            states = []
            for _ in range(100):
                registered = broker.image.partition(ORDERS)
                assert registered is not None
                states.append(registered.leader_recovery_state)
                await asyncio.sleep(0.02)
            assert states[-1] is LeaderRecoveryState.RECOVERED
            client = await VirtualClient.connect()
            assert (await client.produce("orders", b"y")).base_offset == 1

    on_virtual_time(write)
    on_virtual_time(again)
