"""Finding brokers, and trying again what is worth it."""

import asyncio
import random
from typing import Any

import pytest
from tests.unit.client.toy_broker import CLOSE, ToyBroker

from tidelog.client.client import Client, one_line
from tidelog.client.errors import ConnectionFailed
from tidelog.client.groups import committed_offsets
from tidelog.client.producer import Producer
from tidelog.client.topics import create_topic
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records.batch import read_header
from tidelog.wire.records.plain import Record


def client_of(broker: ToyBroker, **changes: Any) -> Client:
    return Client([broker.address], rng=random.Random(0), **changes)


async def test_a_cluster_nobody_reached_is_not_waited_for() -> None:
    async with ToyBroker().serving() as broker:
        address = broker.address
    async with Client([address]) as client:
        with pytest.raises(ConnectionFailed, match="connection refused"):
            await client.retrying(lambda: client.refresh([]))


async def test_errors_that_pass_are_tried_again_and_others_are_not() -> None:
    broker = ToyBroker()
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]

    def create(request: Any, version: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=codes.pop(0))])

    broker.on(CreateTopicsRequest, create)
    async with broker.serving(), client_of(broker) as client:
        retries: list[str] = []
        client.on_retry = lambda error, _: retries.append(one_line(error))
        await create_topic(client, "t")
        assert codes == [] and len(retries) == 2 and "(NOT_CONTROLLER)" in retries[0]
        codes.append(ErrorCode.TOPIC_ALREADY_EXISTS)
        with pytest.raises(ApiError, match="'t': a topic with this name already exists") as caught:
            await create_topic(client, "t")
        assert one_line(caught.value).endswith("(TOPIC_ALREADY_EXISTS)")


async def test_a_slow_attempt_is_reported_before_it_ends() -> None:
    broker = ToyBroker()
    reported = asyncio.Event()

    async def create(request: Any, version: int) -> CreateTopicsResponse:
        await reported.wait()
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])

    broker.on(CreateTopicsRequest, create)
    async with broker.serving(), client_of(broker) as client:
        client.on_slow, client.slow_s = reported.set, 0.01
        await create_topic(client, "t")
        assert reported.is_set()


async def test_a_producer_without_ids_is_not_about_a_group() -> None:
    broker = ToyBroker()
    loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.on(InitProducerIdRequest, lambda request, version: loading)
    async with broker.serving(), client_of(broker) as client:
        with pytest.raises(ApiError, match="producer id: the broker has none, and the active controller does not"):
            await Producer(client, delivery_timeout_s=0.01).send("t", 0, [Record(timestamp=0, value=b"a")])


async def test_trying_again_ends() -> None:
    broker = ToyBroker()
    broker.on(
        CreateTopicsRequest,
        lambda request, _: CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)]
        ),
    )
    async with broker.serving(), client_of(broker, retry_timeout_s=0.1) as client:
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await create_topic(client, "t")


def with_topic(broker: ToyBroker) -> None:
    def metadata(request: Any, version: int) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=broker.address.host, port=broker.address.port)],
            topics=[
                MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)])
            ],
        )

    broker.on(MetadataRequest, metadata)
    broker.on(InitProducerIdRequest, lambda request, _: InitProducerIdResponse(producer_id=7, producer_epoch=0))


async def test_a_batch_is_sent_again_with_the_same_sequence_until_it_is_acknowledged() -> None:
    broker = ToyBroker()
    with_topic(broker)
    sequences: list[int] = []
    outcomes: list[Any] = [CLOSE, ErrorCode.NOT_LEADER_OR_FOLLOWER, 10, CLOSE, 11]

    def produce(request: Any, version: int) -> Any:
        records = request.topic_data[0].partition_data[0].records
        sequences.append(read_header(records).base_sequence)
        outcome = outcomes.pop(0)
        if outcome is CLOSE:
            return CLOSE
        failed = isinstance(outcome, ErrorCode)
        partition = PartitionProduceResponse(
            index=0, error_code=outcome if failed else 0, base_offset=-1 if failed else outcome
        )
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])

    broker.on(ProduceRequest, produce)
    async with broker.serving(), client_of(broker) as client:
        producer = Producer(client)
        assert await producer.send("t", 0, [Record(value=b"a"), Record(value=b"b")]) == 10
        assert await producer.send("t", 0, [Record(value=b"c")]) == 11
    assert sequences == [0, 0, 0, 2, 2]


async def test_after_a_batch_of_unknown_fate_a_new_producer_id_is_used() -> None:
    broker = ToyBroker()
    with_topic(broker)
    ids = [7, 8]
    broker.on(
        InitProducerIdRequest, lambda request, _: InitProducerIdResponse(producer_id=ids.pop(0), producer_epoch=0)
    )
    seen: list[tuple[int, int]] = []

    def produce(request: Any, version: int) -> Any:
        header = read_header(request.topic_data[0].partition_data[0].records)
        seen.append((header.producer_id, header.base_sequence))
        if header.producer_id == 7:
            return CLOSE
        partition = PartitionProduceResponse(index=0, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])

    broker.on(ProduceRequest, produce)
    async with broker.serving(), client_of(broker) as client:
        producer = Producer(client, delivery_timeout_s=0.05)
        with pytest.raises(ConnectionFailed):
            await producer.send("t", 0, [Record(value=b"a")])
        assert await producer.send("t", 0, [Record(value=b"b")]) == 0
    assert seen[-1] == (8, 0)


async def test_acks_zero_waits_for_nothing() -> None:
    broker = ToyBroker()
    with_topic(broker)
    broker.on(ProduceRequest, lambda request, _: None)
    async with broker.serving(), client_of(broker) as client:
        assert await Producer(client, acks=0).send("t", 0, [Record(value=b"a")]) == -1
        await client.refresh([])  # answered behind it on the same connection
        assert [type(request).__name__ for request, _ in broker.requests].count("ProduceRequest") == 1


@pytest.mark.parametrize("version", [3, 9])
async def test_committed_offsets_in_both_shapes_of_the_answer(version: int) -> None:
    broker = ToyBroker()

    def offset_fetch(request: Any, version: int) -> OffsetFetchResponse:
        from tidelog.wire.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponseTopic

        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="m"),
                        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
                    ],
                )
            ],
            groups=[
                OffsetFetchResponseGroup(
                    group_id="g",
                    topics=[
                        OffsetFetchResponseTopics(
                            name="t",
                            partitions=[
                                OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="m"),
                                OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
                            ],
                        )
                    ],
                )
            ],
        )

    broker.on(OffsetFetchRequest, offset_fetch, versions=(1, version))
    broker.on(
        FindCoordinatorRequest,
        lambda request, _: FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", node_id=1, host=broker.address.host, port=broker.address.port)]
        ),
    )
    async with broker.serving(), client_of(broker) as client:
        found = await committed_offsets(client, "g")
    assert {tp: offset.offset for tp, offset in found.items()} == {TopicPartition("t", 0): 5}
