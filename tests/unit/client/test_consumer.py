"""A consumer beside others on one client."""

import asyncio

import pytest

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode


class Forgetful(Client):
    """Somebody else has met an error just after the leader was found."""

    async def leader_of(self, topic: str, partition: int) -> int:
        self.forget_leaders()
        return 1


def test_metadata_that_another_one_took_back_is_asked_for_again() -> None:
    async def story() -> None:
        client = Forgetful([Address("localhost", 1)], retry_timeout_s=0.0)
        consumer = Consumer(client)
        consumer.assign({TopicPartition("orders", 0): 0})
        with pytest.raises(ApiError) as error:
            await consumer.poll()
        assert error.value.code is ErrorCode.LEADER_NOT_AVAILABLE

    asyncio.run(story())
