"""What a coordinator reads of its log at an election: all of it, and it is over when all of it is committed."""

import asyncio

import pytest
from tests.unit.broker.second_broker import ORDERS, follower_fetch, with_second_broker
from tests.unit.broker.virtual_node import VirtualClient, batch, on_virtual_time, running_node

from tidelog.broker.broker import Broker
from tidelog.broker.topic_directory import read_batches
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ApiError, ErrorCode


async def read_all(broker: Broker) -> int:
    return sum([len(batches) async for batches in read_batches(broker, ORDERS)])


@pytest.mark.rule("W5")
def test_loading_ends_when_what_was_there_at_the_election_is_committed() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client, follower = await VirtualClient.connect(), await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"a", acks=1)
            await client.produce("orders", b"b", acks=1)
            loading = asyncio.ensure_future(read_all(broker))
            await asyncio.sleep(1.0)
            await follower.call(follower_fetch(broker, 1, 7), 17)
            await asyncio.sleep(1.0)
            assert not loading.done()
            # Written later: not what it waits for.
            await client.produce("orders", b"c", acks=1)
            await follower.call(follower_fetch(broker, 2, 7), 17)
            assert await loading == 2 * len(batch(b"a"))

    on_virtual_time(story)


@pytest.mark.rule("E5")
def test_loading_ends_with_the_leadership() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            await client.produce("orders", b"a", acks=1)
            loading = asyncio.ensure_future(read_all(broker))
            await asyncio.sleep(1.0)
            with_second_broker(broker, leader=2, isr=(2,), epoch=8)
            with pytest.raises(ApiError) as error:
                await loading
            assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_virtual_time(story)
