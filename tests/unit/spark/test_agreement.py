"""What brokers say together when one of them is cut off, and clients still reach it: no Spark, toy brokers."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, TypeVar
from uuid import UUID

import pytest
from tests.unit.client.toy_broker import ToyBroker

from tidelog.client import client as client_module
from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import RETRIABLE_OF_KNOWN_TOPIC
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.spark.access import DEFAULT_QUESTION_TIMEOUT_S
from tidelog.spark.agreement import agreed, believed, by_node, together
from tidelog.spark.brokers import Brokers
from tidelog.spark.offsets import Position
from tidelog.spark.options import parse
from tidelog.spark.planning import Planner
from tidelog.wire.errors import ApiError, ErrorCode
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
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

A0 = TopicPartition("a", 0)
ID, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)
R = TypeVar("R")


def says(
    names: Iterable[int], topic_id: UUID | None, *, epoch: int = 0, ports: Mapping[int, int] | None = None
) -> MetadataResponse:
    """Of the brokers that there are, and of topic a; None: there is none."""
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="a", topic_id=topic_id or ZERO_UUID, partitions=[partition])
    if topic_id is None:
        topic = MetadataResponseTopic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    brokers = [
        MetadataResponseBroker(node_id=each, host="127.0.0.1", port=(ports or {}).get(each, each))
        for each in sorted(names)
    ]
    return MetadataResponse(brokers=brokers, topics=[topic])


@pytest.mark.parametrize(
    ("named", "counts"),
    [
        ({1: {1}}, [1]),
        ({1: {1, 2, 3}, 2: {1, 2, 3}, 3: {1, 2, 3}}, [1, 2, 3]),
        # Cut off, and fenced by the others.
        ({1: {1, 2}, 2: {1, 2}, 3: {1, 2, 3}}, [1, 2]),
        ({1: {1}, 2: {1, 2}}, [1]),
        # Two are, each for itself, and the one that is left of the cluster is right.
        ({1: {1, 2, 3}, 2: {1, 2, 3}, 3: {3}}, [3]),
        # Others were fenced when it was cut off.
        ({1: {1, 2}, 2: {1, 2}, 3: {3}}, [1, 2]),
        # Nobody can tell which of the two is, so they have to agree.
        ({1: {1, 2}, 3: {3}}, [1, 3]),
        # One is down and not fenced yet.
        ({1: {1, 2, 3}, 2: {1, 2, 3}}, [1, 2]),
    ],
)
def test_whoever_the_others_have_fenced_is_not_believed(named: dict[int, set[int]], counts: list[int]) -> None:
    assert believed({node: says(names, ID) for node, names in named.items()}) == counts


@pytest.mark.parametrize("named", [{3: {1, 2, 3}}, {1: {1, 2}}, {}])
def test_too_few_brokers_say_nothing(named: dict[int, set[int]]) -> None:
    """Of two or three one is left, which may be the one that is cut off."""
    with pytest.raises(ApiError, match="too few") as caught:
        believed({node: says(names, ID) for node, names in named.items()})
    assert caught.value.code in RETRIABLE_OF_KNOWN_TOPIC


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([ID, ID], {A0: ID}),
        ([None, None], {}),
        # Too old for ids.
        ([ZERO_UUID, ID], {A0: ID}),
        ([ZERO_UUID, ZERO_UUID], {A0: ZERO_UUID}),
        ([ID, OTHER], None),
        ([None, ID], None),
        ([ZERO_UUID, None], None),
    ],
)
def test_brokers_that_differ_have_said_nothing_yet(
    said: list[UUID | None], found: dict[TopicPartition, UUID] | None
) -> None:
    answers = {node: says([1, 2], topic_id) for node, topic_id in enumerate(said)}
    if found is not None:
        assert together(answers, ["a"]) == found
        return
    with pytest.raises(ApiError, match="the brokers 0, 1 disagree about topic a") as caught:
        together(answers, ["a"])
    assert caught.value.code in RETRIABLE_OF_KNOWN_TOPIC


def test_an_answer_is_that_of_the_broker_named_with_the_address() -> None:
    other_listener = Address("10.0.0.1", 9)
    answers = {other_listener: says([1, 2], ID), Address("127.0.0.1", 2): says([1, 2], ID)}
    assert by_node(answers) == {2: Address("127.0.0.1", 2)}


class Three:
    """Brokers 1 to 3, of whom 3 is cut off: it has not heard of topic a (or has another one) and names them all."""

    def __init__(self, cut_off: UUID | None, *, is_fenced: bool = True, cut_off_epoch: int = 4) -> None:
        self.brokers = {node: ToyBroker() for node in (1, 2, 3)}
        self.asked = dict.fromkeys(self.brokers, 0)
        # How often 1 and 2 still name it.
        self.until_fenced = 0 if is_fenced else 4
        self.topic_id: UUID | None = ID
        self.epoch = 5
        self.cut_off = cut_off
        self.cut_off_epoch = cut_off_epoch
        for node, broker in self.brokers.items():
            broker.on(MetadataRequest, self._told_by(node))
            broker.on(ListOffsetsRequest, self._ends)
            broker.on(OffsetForLeaderEpochRequest, self._epochs)

    def _told_by(self, node: int) -> Callable[[Any, int], MetadataResponse]:
        def told(request: Any, version: int) -> MetadataResponse:
            self.asked[node] += 1
            # Who is cut off would wait for a controller.
            assert not request.allow_auto_topic_creation
            ports = {node: broker.address.port for node, broker in self.brokers.items()}
            if node == 3:
                return says([1, 2, 3], self.cut_off, epoch=self.cut_off_epoch, ports=ports)
            self.until_fenced -= 1
            named = [1, 2, 3] if self.until_fenced >= 0 else [1, 2]
            return says(named, self.topic_id, epoch=self.epoch, ports=ports)

        return told

    def _ends(self, request: Any, version: int) -> ListOffsetsResponse:
        found = ListOffsetsPartitionResponse(partition_index=0, offset=40, leader_epoch=self.epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=[found])])

    def _epochs(self, request: Any, version: int) -> OffsetForLeaderEpochResponse:
        asked = request.topics[0].partitions[0].leader_epoch
        found = EpochEndOffset(partition=0, leader_epoch=asked, end_offset=40 if asked == 5 else 0)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="a", partitions=[found])])

    def run(self, work: Callable[[str], R]) -> R:
        """In a thread as Spark has it. Whoever begins at the front of the bootstrap servers reaches 3."""

        async def story() -> R:
            async with AsyncExitStack() as stack:
                for broker in self.brokers.values():
                    await stack.enter_async_context(broker.serving())
                return await asyncio.to_thread(work, ",".join(str(self.brokers[node].address) for node in (3, 1, 2)))

        return asyncio.run(story())


def ends(bootstrap: str) -> dict[TopicPartition, Position]:
    """Of a stream that takes losses and has read up to 30."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "a", "failOnDataLoss": "false"}
    options = parse(given | {"fetchOffset.retryIntervalMs": "1"}, streaming=True)
    brokers = Brokers(options)
    try:
        planner = Planner(options, brokers)
        return [planner.latest({A0: Position(30, 5, ID)}) for _ in range(2)][-1]
    finally:
        brokers.close()


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("cut_off", [None, OTHER])
def test_a_partition_is_not_gone_because_a_broker_that_is_cut_off_says_so(
    cut_off: UUID | None, is_fenced: bool
) -> None:
    three = Three(cut_off, is_fenced=is_fenced)
    assert three.run(ends) == {A0: Position(40, 5, ID)}
    # Once the others have spoken nobody asks it any more: the second time is like any other.
    assert three.asked[3] <= 1 + 3 * (1 if is_fenced else 3)


def test_who_is_told_of_an_old_leader_asks_another_broker() -> None:
    """And not the same one for as long as its patience lasts."""
    three = Three(ID)
    assert three.run(ends) == {A0: Position(40, 5, ID)}
    assert three.asked[3] == 2


def test_a_broker_that_hangs_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the question and gives no answer, as a process does that is stopped: that was all the time there was."""
    monkeypatch.setattr(client_module, "_METADATA_S", 0.2)
    three = Three(ID)
    three.brokers[3].on(MetadataRequest, lambda request, version: None)
    assert three.run(ends) == {A0: Position(40, 5, ID)}
    asked = [request for request, _ in three.brokers[3].requests if isinstance(request, MetadataRequest)]
    assert len(asked) == 1


def test_a_leader_that_hangs_leaves_time_to_ask_the_next() -> None:
    """And to connect to it."""
    settings = ConnectionSettings()
    assert settings.request_timeout_s + 2 * settings.connect_timeout_s < DEFAULT_QUESTION_TIMEOUT_S


@pytest.mark.parametrize("made_anew", [OTHER, None])
def test_partitions_that_are_kept_for_a_while_are_not_believed_against_the_brokers(
    made_anew: UUID | None,
) -> None:
    """With partition.metadata.cache.ttl.ms, or from one question to the next: the topic was deleted, or made anew."""
    three = Three(ID, cut_off_epoch=5)

    def story(bootstrap: str) -> dict[TopicPartition, Position]:
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "a", "failOnDataLoss": "false"}
        given |= {"fetchOffset.retryIntervalMs": "1", "partition.metadata.cache.ttl.ms": "600000"}
        given |= {"kafka.default.api.timeout.ms": "1000"}
        options = parse(given, streaming=True)
        brokers = Brokers(options)
        try:
            planner = Planner(options, brokers)
            assert planner.latest({A0: Position(30, 5, ID)}) == {A0: Position(40, 5, ID)}
            three.topic_id = three.cut_off = made_anew
            three.epoch = three.cut_off_epoch = 0
            return planner.latest({A0: Position(40, 5, ID)})
        finally:
            brokers.close()

    found = three.run(story)
    assert {tp: at.topic_id for tp, at in found.items()} == ({} if made_anew is None else {A0: made_anew})


def test_all_have_their_turn() -> None:
    three = Three(ID)

    async def story() -> None:
        async with AsyncExitStack() as stack:
            for broker in three.brokers.values():
                await stack.enter_async_context(broker.serving())
            client = Client([three.brokers[3].address], asks_around=True, passing=RETRIABLE_OF_KNOWN_TOPIC)
            await stack.enter_async_context(client)
            asked: list[int] = []

            async def attempt() -> None:
                before = dict(three.asked)
                await client.refresh(["a"])
                asked.extend(node for node in before if three.asked[node] > before[node])
                if len(asked) < 6:
                    raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, "old")

            await client.retrying(attempt)
            assert asked[0] == 3
            assert sorted(asked[:3]) == [1, 2, 3]
            assert all(node != after for node, after in pairwise(asked))
            assert await agreed(client, ["a"]) == {A0: ID}
            assert (await client.any_broker()).address != three.brokers[3].address

    asyncio.run(story())
