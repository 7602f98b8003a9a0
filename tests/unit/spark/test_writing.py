"""What a task of the sink sends to a broker (K2): no Spark, a toy broker."""

import asyncio
from typing import Any
from uuid import UUID

import pyarrow as pa
from tests.unit.client.toy_broker import ToyBroker

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
        options = SinkOptions(bootstrap=str(leader.address), topic="a", columns=("value",), batch_bytes=1500)
        return write(options, [pa.record_batch([pa.array(values, pa.binary())], ["value"])])

    async def story() -> int:
        async with leader.serving():
            return await asyncio.to_thread(whole)

    assert asyncio.run(story()) == len(values)
    assert leader.refused > 1
    assert leader.values == values
