"""Who is the active controller, among nodes that know, do not know, or do not answer."""

import asyncio
from typing import Any

from tests.unit.client.toy_broker import ToyBroker

from tidelog.cluster.quorum_view import ActiveController, active_controller
from tidelog.core.ids import METADATA_TOPIC
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)


def node(partition: ResponsePartitionData | None) -> ToyBroker:
    """Answers with this, or never."""
    broker = ToyBroker()

    async def describe(request: Any, version: int) -> DescribeQuorumResponse:
        if partition is None:
            await asyncio.Event().wait()
        assert partition is not None
        topic = ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        return DescribeQuorumResponse(error_message=None, topics=[topic])

    broker.on(DescribeQuorumRequest, describe)
    return broker


KNOWS = ResponsePartitionData(error_message=None, leader_id=2, leader_epoch=5)
HAS_NONE = ResponsePartitionData(error_message=None, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_one_node_that_knows_is_enough() -> None:
    async with node(HAS_NONE).serving() as one, node(None).serving() as two, node(KNOWS).serving() as three:
        ports = [one.address.port, two.address.port, three.address.port]
        assert await active_controller(ports) == ActiveController(2, 5)


async def test_nobody_knows_or_nobody_is_there() -> None:
    async with node(HAS_NONE).serving() as one:
        gone = one.address.port
        assert await active_controller([gone]) is None
    assert await active_controller([gone]) is None
    assert await active_controller([]) is None


async def test_nobody_answers_in_time() -> None:
    async with node(None).serving() as one:
        assert await active_controller([one.address.port], timeout_s=0.05) is None
