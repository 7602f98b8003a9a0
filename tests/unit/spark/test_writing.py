"""What a task of the sink sends to a broker (K2): no Spark, a toy broker."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
from tests.unit.client.toy_broker import ToyBroker

from tidelog.spark.access import ClusterAccess
from tidelog.spark.sink_options import SinkOptions
from tidelog.spark.writing import write
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records.plain import decode_batch

ID = UUID(int=7 << 64)


class Leader(ToyBroker):
    """Of one partition of topic a, which takes batches of `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.refused = 0
        self.values: list[bytes | None] = []
        self.on(MetadataRequest, self._told)
        self.on(InitProducerIdRequest, lambda request, version: InitProducerIdResponse(producer_id=1, producer_epoch=0))
        self.on(ProduceRequest, self._produce)

    def _told(self, request: Any, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=5)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=self.address.host, port=self.address.port)],
            topics=[MetadataResponseTopic(name="a", topic_id=ID, partitions=[partition])],
        )

    def _produce(self, request: Any, version: int) -> ProduceResponse:
        batch = request.topic_data[0].partition_data[0].records
        error = ErrorCode.NONE
        if len(batch) > self.most:
            self.refused += 1
            error = ErrorCode.MESSAGE_TOO_LARGE
        else:
            self.values += [record.value for record in decode_batch(batch)[1]]
        answer = PartitionProduceResponse(index=0, error_code=error, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=ID, partition_responses=[answer])])


def test_rows_keep_their_order_where_batches_have_to_be_halved() -> None:
    """Those behind a batch that is too large wait for its halves."""
    leader = Leader(most=600)
    values = [b"%040d" % number for number in range(200)]

    def whole() -> int:
        options = SinkOptions(
            access=ClusterAccess(bootstrap=str(leader.address)), topic="a", columns=("value",), batch_bytes=1500
        )
        return write(options, [pa.record_batch([pa.array(values, pa.binary())], ["value"])])

    async def story() -> int:
        async with leader.serving():
            return await asyncio.to_thread(whole)

    assert asyncio.run(story()) == len(values)
    assert leader.refused > 1
    assert leader.values == values


def test_a_task_asks_others_when_it_is_told_of_a_leader_that_is_none() -> None:
    """One broker is cut off, knows nothing of the new leader, and is the first that is asked: each time, once."""
    leader, former, cut_off = Leader(most=10_000), Leader(most=10_000), Leader(most=10_000)
    refused = PartitionProduceResponse(index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer = ProduceResponse(responses=[TopicProduceResponse(topic_id=ID, partition_responses=[refused])])
    former.on(ProduceRequest, lambda request, version: answer)

    def told(leader_id: int) -> Callable[[Any, int], MetadataResponse]:
        def tell(request: Any, version: int) -> MetadataResponse:
            addresses = {1: former.address, 2: leader.address, 3: cut_off.address}
            partition = MetadataResponsePartition(partition_index=0, leader_id=leader_id, leader_epoch=4 + leader_id)
            return MetadataResponse(
                brokers=[
                    MetadataResponseBroker(node_id=node, host=address.host, port=address.port)
                    for node, address in addresses.items()
                ],
                topics=[MetadataResponseTopic(name="a", topic_id=ID, partitions=[partition])],
            )

        return tell

    cut_off.on(MetadataRequest, told(1))
    for each in (leader, former):
        each.on(MetadataRequest, told(2))

    def whole() -> int:
        bootstrap = f"{cut_off.address},{leader.address}"
        options = SinkOptions(
            access=ClusterAccess(bootstrap=bootstrap), topic="a", columns=("value",), delivery_timeout_s=3
        )
        return write(options, [pa.record_batch([pa.array([b"x"], pa.binary())], ["value"])])

    async def story() -> int:
        async with leader.serving(), former.serving(), cut_off.serving():
            return await asyncio.to_thread(whole)

    assert asyncio.run(story()) == 1
    assert leader.values == [b"x"]
