"""What a task makes of brokers that are behind, over quota, or of another history (S4, S5): no Spark, a toy broker."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.toy_broker import CLOSE, ToyBroker

from tidelog.client.connection import ConnectionSettings
from tidelog.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from tidelog.core.ids import TopicPartition
from tidelog.kernel.decoder import CorruptBatch
from tidelog.spark import reading
from tidelog.spark.brokers import Brokers
from tidelog.spark.history import DataLoss
from tidelog.spark.options import Subscription, parse
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.reading import read
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import EpochEndOffset as OffsetForLeaderEnd
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.wire.records.plain import Record, encode_batch

ID, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)
WANTED = OffsetRange(tp=TopicPartition("a", 0), start=0, end=10, epoch=-1, topic_id=ID)


def batch(first: int, end: int, epoch: int = 5) -> bytes:
    records = [Record(timestamp=1, key=None, value=b"%d" % number) for number in range(first, end)]
    return encode_batch(records, base_offset=first, leader_epoch=epoch)


class Leader(ToyBroker):
    """Of one partition of topic a. `fetched` answers fetches by their number and their partition's fields."""

    def __init__(self, fetched: Callable[[int, Any], PartitionData | FetchResponse | None]) -> None:
        super().__init__()
        self.topic_id = ID
        self.begins = 0
        # Where the part of the log begins that is its own; what is before it lies elsewhere.
        self.own_from = 0
        self.epochs = [5]
        self.topics = ["a"]
        self.fetches: list[Any] = []
        self._fetched = fetched
        self.on(MetadataRequest, self._told)
        self.on(FetchRequest, self._fetch)
        self.on(ListOffsetsRequest, self._list)

    def _told(self, request: Any, version: int) -> MetadataResponse:
        # Of several epochs each is told once, and the last from then on.
        epoch = self.epochs[0] if len(self.epochs) == 1 else self.epochs.pop(0)
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=self.address.host, port=self.address.port)],
            topics=[
                MetadataResponseTopic(name=name, topic_id=self.topic_id, partitions=[partition]) for name in self.topics
            ],
        )

    def _fetch(self, request: Any, version: int) -> FetchResponse | None:
        asked = request.topics[0].partitions[0]
        self.fetches.append(asked)
        answer = self._fetched(len(self.fetches), asked)
        if not isinstance(answer, PartitionData):
            return answer
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=self.topic_id, partitions=[answer])])

    def _list(self, request: Any, version: int) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0].timestamp
        offset = {EARLIEST: self.begins, EARLIEST_LOCAL: self.own_from, LATEST: 10}[asked]
        found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, leader_epoch=5)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=[found])])

    def numbers(
        self,
        *,
        fail: bool = True,
        wanted: OffsetRange = WANTED,
        patience_ms: int = 10_000,
        on_row: Callable[[int], object] = id,
        before: ToyBroker | None = None,
    ) -> list[int]:
        """What a task reads, in a thread as Spark has it. `before` is a broker that it asks first."""

        async def story() -> list[int]:
            async with AsyncExitStack() as stack:
                brokers = [self] if before is None else [before, self]
                for broker in brokers:
                    await stack.enter_async_context(broker.serving())
                bootstrap = ",".join(str(broker.address) for broker in brokers)
                return await asyncio.to_thread(self._numbers, bootstrap, fail, wanted, patience_ms, on_row)

        return asyncio.run(story())

    def _numbers(
        self, bootstrap: str, fail: bool, wanted: OffsetRange, patience_ms: int, on_row: Callable[[int], object]
    ) -> list[int]:
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "a", "failOnDataLoss": str(fail)}
        options = parse({**given, "kafkaConsumer.pollTimeoutMs": str(patience_ms)}, streaming=True)
        found = []
        for rows in read(options, wanted):
            for value in rows.column("value"):
                found.append(int(value.as_py()))
                on_row(found[-1])
        return found


def test_a_leader_that_is_behind_what_was_read_is_not_fetched_from() -> None:
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(asked.fetch_offset, 10)))
    leader.epochs = [3, 4, 5]
    assert leader.numbers(wanted=replace(WANTED, start=6, epoch=5)) == [6, 7, 8, 9]
    assert [(each.fetch_offset, each.last_fetched_epoch) for each in leader.fetches] == [(6, 5)]
    assert leader.epochs == [5]


def test_a_leader_from_before_the_end_of_the_range_is_not_fetched_from() -> None:
    """What it has in the range may be what an unclean election gave up, and what stands there now would never be read:
    the checkpoint of the batch is of the later epoch already.
    """
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10, epoch=4)))
    leader.epochs = [3, 4, 5]
    assert leader.numbers(wanted=replace(WANTED, end_epoch=5)) == list(range(10))
    assert leader.epochs == [5]


def test_every_fetch_says_the_epoch_of_the_batch_before() -> None:
    answers = {0: batch(0, 4, epoch=2), 4: batch(4, 7, epoch=5), 7: batch(7, 12, epoch=5)}
    leader = Leader(lambda number, asked: PartitionData(high_watermark=12, records=answers[asked.fetch_offset]))
    assert leader.numbers() == list(range(10))
    assert [each.last_fetched_epoch for each in leader.fetches] == [-1, 2, 5]


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_made_anew_has_nothing_of_the_old_one(fail: bool, caplog: pytest.LogCaptureFixture) -> None:
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10)))
    leader.topic_id = OTHER
    text = "a-0: offsets 0 to 9 are lost to this query: the topic was recreated"
    if fail:
        with pytest.raises(DataLoss, match=text):
            leader.numbers()
    else:
        with caplog.at_level(logging.WARNING, "tidelog.spark"):
            assert leader.numbers(fail=False) == []
        assert text in caplog.text
    assert leader.fetches == []


def test_a_topic_is_not_made_anew_because_one_broker_says_so() -> None:
    """The executor may have reached one that is cut off, and knows the topic as it was before."""
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10)))
    leader.topic_id, told = OTHER, leader.handlers[MetadataRequest]

    def once(request: Any, version: int) -> Any:
        answer = told(request, version)
        leader.topic_id = ID
        return answer

    leader.on(MetadataRequest, once)
    assert leader.numbers() == list(range(10))


def test_a_task_goes_on_with_the_one_broker_that_is_left_beside_one_that_is_cut_off() -> None:
    """They do not take turns: whoever spoke for the cluster is not left for the one that is no part of it."""
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10)))
    cut_off = ToyBroker()

    def told(request: Any, version: int) -> Any:
        answer: Any = leader.handlers[MetadataRequest](request, version)
        answer.topics[0].topic_id = OTHER
        host, port = cut_off.address.host, cut_off.address.port
        answer.brokers.append(MetadataResponseBroker(node_id=2, host=host, port=port))
        return answer

    cut_off.on(MetadataRequest, told)

    assert leader.numbers(before=cut_off, patience_ms=2000) == list(range(10))


@pytest.mark.parametrize("others", [[], [2, 3]])
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID])
def test_a_topic_that_was_deleted_is_lost_when_the_brokers_say_so_for_long_enough(
    others: list[int], code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    """Not when others are named, and cannot be asked: the one that answers may be cut off."""
    leader = Leader(lambda number, asked: PartitionData(error_code=code))
    told = leader.handlers[MetadataRequest]

    def deleted(request: Any, version: int) -> Any:
        answer: Any = told(request, version)
        if leader.fetches or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            answer.topics = [MetadataResponseTopic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        answer.brokers += [MetadataResponseBroker(node_id=each, host="127.0.0.1", port=1) for each in others]
        return answer

    leader.on(MetadataRequest, deleted)
    if others:
        with pytest.raises(ApiError, match="too few to agree on which topics exist"):
            leader.numbers(fail=False, patience_ms=300)
        return
    text = "a-0: offsets 0 to 9 are lost to this query: the topic was deleted"
    with pytest.raises(DataLoss, match=text):
        leader.numbers(patience_ms=300)
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        assert leader.numbers(fail=False, patience_ms=300) == []
    assert text in caplog.text


def test_a_task_waits_for_a_broker_that_cannot_be_reached_or_has_not_heard_of_the_topic() -> None:
    """The driver has been told of it: one that is being started again is no reason to give a batch up."""
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10)))
    versions, told = leader.handlers[ApiVersionsRequest], leader.handlers[MetadataRequest]
    asked: list[int] = []

    def reached(request: Any, version: int) -> Any:
        asked.append(version)
        return CLOSE if len(asked) == 1 else versions(request, version)

    def heard(request: Any, version: int) -> Any:
        leader.on(MetadataRequest, told)
        unknown = MetadataResponseTopic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponse(topics=[unknown])

    leader.on(ApiVersionsRequest, reached)
    leader.on(MetadataRequest, heard)
    assert leader.numbers() == list(range(10))
    assert len(asked) > 1


def test_a_task_does_not_wait_long_for_a_broker_that_hangs() -> None:
    """Every task of every micro-batch begins with the first of the bootstrap servers, and that one may be stopped: who
    connects to it is not refused, and never gets an answer.
    """
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=batch(0, 10)))
    hung = ToyBroker()
    hung.on(ApiVersionsRequest, lambda request, version: None)
    with closing(asyncio.new_event_loop()) as clock:
        begun_s = clock.time()
        assert leader.numbers(before=hung) == list(range(10))
        assert clock.time() - begun_s < ConnectionSettings().connect_timeout_s / 2


def test_over_its_quota_a_task_stays_away_and_asks_again() -> None:
    def fetched(number: int, asked: Any) -> PartitionData | FetchResponse:
        if number < 3:
            return FetchResponse(throttle_time_ms=5)
        return PartitionData(high_watermark=10, records=batch(0, 10))

    leader = Leader(fetched)
    assert leader.numbers() == list(range(10))
    assert len(leader.fetches) == 3


@pytest.mark.parametrize("fail", [True, False])
def test_a_leader_that_tells_of_another_history_is_believed(fail: bool, caplog: pytest.LogCaptureFixture) -> None:
    def fetched(number: int, asked: Any) -> PartitionData:
        if asked.last_fetched_epoch == 5:
            return PartitionData(diverging_epoch=EpochEndOffset(epoch=4, end_offset=2))
        return PartitionData(high_watermark=10, records=batch(asked.fetch_offset, 10, epoch=6))

    leader = Leader(fetched)
    leader.epochs = [6]
    wanted = replace(WANTED, start=6, epoch=5)
    text = "a-0: offsets 2 to 5 are lost to this query: they were read up to leader epoch 5, the leader has epoch 4"
    if fail:
        with pytest.raises(DataLoss, match=text):
            leader.numbers(wanted=wanted)
    else:
        with caplog.at_level(logging.WARNING, "tidelog.spark"):
            assert leader.numbers(fail=False, wanted=wanted) == [6, 7, 8, 9]
        assert text in caplog.text


@pytest.mark.parametrize("fail", [True, False])
def test_what_was_rewritten_since_the_batch_was_planned_is_not_read(fail: bool) -> None:
    """A batch that is run again has the rows it was planned with, or fewer: the next begins where histories part."""
    written = batch(0, 4, epoch=5) + batch(4, 12, epoch=6)
    leader = Leader(lambda number, asked: PartitionData(high_watermark=12, records=written))
    leader.epochs = [6]
    wanted = replace(WANTED, end_epoch=5)
    if fail:
        text = "a-0: offsets 4 to 9 are lost to this query: the plan had leader epoch 5 as the newest"
        with pytest.raises(DataLoss, match=text):
            leader.numbers(wanted=wanted)
    else:
        assert leader.numbers(fail=False, wanted=wanted) == [0, 1, 2, 3]
    assert leader.numbers(wanted=replace(WANTED, end=4, end_epoch=5)) == [0, 1, 2, 3]


@pytest.mark.parametrize("fail", [True, False])
def test_what_retention_took_meanwhile_is_skipped_or_an_error(fail: bool) -> None:
    def fetched(number: int, asked: Any) -> PartitionData:
        if asked.fetch_offset < 4:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        return PartitionData(high_watermark=10, records=batch(4, 10))

    leader = Leader(fetched)
    leader.begins = 4
    if fail:
        with pytest.raises(DataLoss, match="a-0: offsets 0 to 3 are lost to this query: the log begins at 4"):
            leader.numbers()
    else:
        assert leader.numbers(fail=False) == [4, 5, 6, 7, 8, 9]


def test_a_leader_that_does_not_give_what_it_has_is_not_asked_for_ever() -> None:
    leader = Leader(lambda number, asked: PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(ApiError, match="a-0 at offset 0, of a log up to 10: the log does not contain the offset"):
        leader.numbers(patience_ms=100)
    assert len(leader.fetches) < 5


def test_holes_up_to_the_end_are_the_end() -> None:
    def fetched(number: int, asked: Any) -> PartitionData:
        return PartitionData(high_watermark=20, records=batch(0, 3) if asked.fetch_offset == 0 else b"")

    leader = Leader(fetched)
    assert leader.numbers() == [0, 1, 2]
    # A log that is the broker's own is looked through at once.
    assert [each.fetch_offset for each in leader.fetches] == [0, 3]


@pytest.mark.parametrize("knows_the_question", [True, False])
def test_an_answer_without_records_is_no_hole_yet_if_they_may_lie_elsewhere(knows_the_question: bool) -> None:
    """A broker that has to get old segments from elsewhere answers with nothing while it waits for them."""

    def fetched(number: int, asked: Any) -> PartitionData:
        return PartitionData(high_watermark=20, records=batch(0, 10) if number == 4 else b"")

    leader = Leader(fetched)
    if knows_the_question:
        leader.own_from = 1
    else:
        leader.on(ListOffsetsRequest, leader._list, versions=(1, 7))
    assert leader.numbers() == list(range(10))


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("ends", [10, 5])
def test_what_a_leader_has_and_may_not_give_yet_is_not_lost(fail: bool, ends: int) -> None:
    """It was elected after the batch was planned, and with fewer in sync than min.insync.replicas it does not learn
    that what it has is committed. Only what is not in its log is lost.
    """

    def fetched(number: int, asked: Any) -> PartitionData:
        return PartitionData(high_watermark=5, records=batch(0, 5) if asked.fetch_offset == 0 else b"")

    def told(request: Any, version: int) -> OffsetForLeaderEpochResponse:
        [asked] = request.topics[0].partitions
        assert asked.leader_epoch == 5
        end = OffsetForLeaderEnd(partition=0, leader_epoch=5, end_offset=ends)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="a", partitions=[end])])

    leader = Leader(fetched)
    leader.epochs = [6]
    leader.on(OffsetForLeaderEpochRequest, told)
    wanted = replace(WANTED, end_epoch=5)
    if ends == 10:
        with pytest.raises(ApiError, match="a-0 has the records up to offset 10, but reports only those up to 5"):
            leader.numbers(fail=fail, wanted=wanted, patience_ms=300)
    elif fail:
        with pytest.raises(DataLoss, match="a-0: offsets 5 to 9 are lost to this query: the log ends at 5"):
            leader.numbers(wanted=wanted, patience_ms=300)
    else:
        assert leader.numbers(fail=False, wanted=wanted, patience_ms=300) == [0, 1, 2, 3, 4]


def test_who_stops_reading_does_not_wait_for_an_answer() -> None:
    """The second fetch is never answered, and the first was no batch."""
    broken = bytearray(batch(0, 3))
    broken[-1] ^= 1
    leader = Leader(lambda number, asked: PartitionData(high_watermark=10, records=broken) if number == 1 else None)
    with pytest.raises(CorruptBatch):
        leader.numbers()
    assert not [each for each in threading.enumerate() if each.name.startswith("fetch-")]


def test_one_answer_is_asked_for_ahead_and_no_more() -> None:
    """The broker reads while rows are decoded and handed on, and a task holds two answers."""
    asked = threading.Event()
    while_first = []

    def fetched(number: int, request: Any) -> PartitionData:
        if number == 2:
            asked.set()
        return PartitionData(high_watermark=20, records=batch(request.fetch_offset, request.fetch_offset + 5))

    def on_row(number: int) -> None:
        assert asked.wait(10)
        if number < 4:
            while_first.append(len(leader.fetches))

    leader = Leader(fetched)
    # Full after one record: rows leave as soon as they are decoded.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_BATCH_BYTES", 1)
        assert leader.numbers(wanted=replace(WANTED, end=20), on_row=on_row) == list(range(20))
    assert [each.fetch_offset for each in leader.fetches] == [0, 5, 10, 15]
    # The rows of the first answer, but for the last of them, leave before the second is taken.
    assert set(while_first) == {2}


@pytest.mark.parametrize("answer", [CLOSE, PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)])
def test_an_answer_asked_for_ahead_that_does_not_come_is_asked_for_again(answer: Any) -> None:
    def fetched(number: int, asked: Any) -> Any:
        if number == 2:
            return answer
        return PartitionData(high_watermark=10, records=batch(asked.fetch_offset, asked.fetch_offset + 5))

    leader = Leader(fetched)
    assert leader.numbers() == list(range(10))
    assert [each.fetch_offset for each in leader.fetches][:2] == [0, 5]


def test_a_pattern_may_match_a_part_of_a_name() -> None:
    """As in Spark's own source."""
    leader = Leader(lambda number, asked: None)
    leader.topics = ["orders", "old-orders-2", "other"]

    def found() -> list[str]:
        options = parse({"kafka.bootstrap.servers": str(leader.address), "subscribePattern": "ord.rs"}, streaming=True)
        assert options.subscription == Subscription(pattern="ord.rs")
        brokers = Brokers(options)
        try:
            return sorted(tp.topic for tp in brokers.partitions())
        finally:
            brokers.close()

    async def story() -> list[str]:
        async with leader.serving():
            return await asyncio.to_thread(found)

    assert asyncio.run(story()) == ["old-orders-2", "orders"]
