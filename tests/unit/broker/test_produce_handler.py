"""Produce over the wire to a whole node: acknowledgements, refusals, waiting."""

import asyncio
import copy
from uuid import UUID

import pytest
from tests.unit.broker.second_broker import ORDERS, follower_fetch, with_second_broker
from tests.unit.broker.virtual_node import (
    START_MS,
    LosesEverything,
    VirtualClient,
    batch,
    fetch_request,
    on_virtual_time,
    produce_request,
    running_node,
)

from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records.plain import Record, encode_batch


@pytest.mark.rule("P1")
@pytest.mark.parametrize("acks", [2, -2, 7])
def test_other_acks_are_refused(acks: int) -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            answer = await client.produce("orders", b"x", acks=acks)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
            assert broker.replicas.partition(ORDERS).log.log_end_offset == 0

    on_virtual_time(story)


@pytest.mark.rule("P1")
def test_acks_0_has_no_response_at_all() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            client.send(produce_request("orders", batch(b"x"), acks=0), 9)
            # The next answer is the next request's, and shows that the write was done before it.
            assert (await client.produce("orders", b"y")).base_offset == 1

    on_virtual_time(story)


@pytest.mark.rule("P1")
def test_a_failed_acks_0_closes_the_connection() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk(), auto_create_topics_enable="false"):
            client = await VirtualClient.connect()
            client.send(produce_request("missing", batch(b"x"), acks=0), 9)
            assert await client.reader.read() == b""

    on_virtual_time(story)


@pytest.mark.rule("P5")
def test_a_bad_partition_does_not_fail_the_others() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()):
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            broken = bytearray(batch(b"x"))
            broken[-1] ^= 0xFF
            request = ProduceRequest(
                acks=-1,
                timeout_ms=1000,
                topic_data=[
                    TopicProduceData(
                        name="orders",
                        partition_data=[
                            PartitionProduceData(index=9, records=batch(b"x")),
                            PartitionProduceData(index=0, records=bytes(broken)),
                            PartitionProduceData(index=0, records=batch(b"x")),
                        ],
                    )
                ],
            )
            answers = (await client.call(request, 9)).responses[0].partition_responses
            codes = [answer.error_code for answer in answers]
            assert codes == [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.NONE,
            ]

    on_virtual_time(story)


def test_records_for_a_topic_that_was_made_again_do_not_get_into_the_new_one() -> None:
    """Metadata is applied in slices: a partition may be the new topic's while the image still knows the old one."""

    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            partition = broker.replicas.partition(ORDERS)
            request = produce_request("orders", batch(b"x"))
            request.topic_data[0].topic_id = partition.topic_id
            partition.topic_id = UUID(int=501)
            answer = (await client.call(request, 13)).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
            assert partition.log.log_end_offset == 0

    on_virtual_time(story)


@pytest.mark.rule("P6")
@pytest.mark.parametrize("version", [9, 10, 12])
def test_who_does_not_lead_names_the_leader(version: int) -> None:
    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=2, isr=(2,), epoch=7)
            response = await client.call(produce_request("orders", batch(b"x")), version)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            if version >= 10:
                assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 7)
                named = [(node.node_id, node.host, node.port) for node in response.node_endpoints]
                assert named == [(2, "other.example", 9192)]

    on_virtual_time(story)


@pytest.mark.rule("P3")
def test_a_write_waits_for_the_follower_and_the_high_watermark_completes_it() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            waiting = asyncio.ensure_future(client.produce("orders", b"x"))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            follower = await VirtualClient.connect()
            before = loop.time()
            # Where it stands after the first fetch is not far enough; the second says that it has the record.
            found = (await follower.call(follower_fetch(broker, 0, 7), 17)).responses[0].partitions[0]
            assert (found.error_code, found.high_watermark, bool(found.records)) == (ErrorCode.NONE, 0, True)
            assert not waiting.done()
            found = (await follower.call(follower_fetch(broker, 1, 7), 17)).responses[0].partitions[0]
            assert (found.high_watermark, found.records) == (1, b"")
            answer = await waiting
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            assert loop.time() == before

    on_virtual_time(story)


@pytest.mark.rule("P3")
def test_a_write_that_is_not_replicated_in_time_ends_and_stays_in_the_log() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            before = loop.time()
            answer = await client.produce("orders", b"x")
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert round(loop.time() - before, 3) == 1.0
            assert broker.replicas.partition(ORDERS).log.log_end_offset == 1
            assert len(broker.produce_purgatory) == 0

    on_virtual_time(story)


@pytest.mark.rule("P3")
def test_a_lost_leadership_answers_at_once() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            waiting = asyncio.ensure_future(client.produce("orders", b"x"))
            await asyncio.sleep(0.1)
            before = loop.time()
            with_second_broker(broker, leader=2, isr=(2,), epoch=8)
            assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert loop.time() == before

    on_virtual_time(story)


@pytest.mark.rule("P4")
def test_a_retried_batch_waits_for_the_high_watermark_like_the_first() -> None:
    def sealed() -> bytes:
        record = Record(timestamp=START_MS, key=None, value=b"once")
        return encode_batch([record], producer_id=5, producer_epoch=0, base_sequence=0)

    async def story() -> None:
        async with running_node(MemoryDisk()) as broker:
            client = await VirtualClient.connect()
            await client.create_topic("orders")
            with_second_broker(broker, leader=1, isr=(1, 2), epoch=7)
            first = (await client.call(produce_request("orders", sealed()), 9)).responses[0].partition_responses[0]
            assert first.error_code == ErrorCode.REQUEST_TIMED_OUT
            again = (await client.call(produce_request("orders", sealed()), 9)).responses[0].partition_responses[0]
            assert again.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert broker.replicas.partition(ORDERS).log.log_end_offset == 1
            await (await VirtualClient.connect()).call(follower_fetch(broker, 1, 7), 17)
            third = (await client.call(produce_request("orders", sealed()), 9)).responses[0].partition_responses[0]
            assert (third.error_code, third.base_offset) == (ErrorCode.NONE, 0)

    on_virtual_time(story)


@pytest.mark.rule("W6")
@pytest.mark.parametrize(("flush", "survives"), [("9223372036854775807", False), ("1", True)])
def test_an_acknowledged_record_survives_a_power_cut_only_if_it_was_flushed(flush: str, survives: bool) -> None:
    disk = MemoryDisk()
    after_the_cut: list[MemoryDisk] = []

    async def write() -> None:
        async with running_node(disk):
            client = await VirtualClient.connect()
            await client.create_topic("orders", flush_messages=flush)
            assert (await client.produce("orders", b"x")).error_code == ErrorCode.NONE
            left = copy.deepcopy(disk)
            left.crash(LosesEverything())
            after_the_cut.append(left)

    async def read() -> None:
        async with running_node(after_the_cut[0]) as broker:
            client = await VirtualClient.connect()
            found = (await client.call(fetch_request("orders", 0, wait_ms=0), 12)).responses[0].partitions[0]
            assert (broker.replicas.partition(ORDERS).log.log_end_offset == 1) is survives
            assert bool(found.records) is survives

    on_virtual_time(write)
    on_virtual_time(read)
