"""What the driver decides when brokers know less, or other things, than was read from them (S5, S6)."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from tidelog.client.metadata import ClusterMetadata
from tidelog.client.offsets import FoundOffset
from tidelog.core.ids import TopicPartition, uuid_to_text
from tidelog.spark.brokers import Brokers, EpochEnd, refuse_stale
from tidelog.spark.errors import OptionError
from tidelog.spark.history import DataLoss
from tidelog.spark.offsets import Position
from tidelog.spark.options import parse
from tidelog.spark.planning import Planner
from tidelog.spark.ranges import OffsetRange
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

A0 = TopicPartition("a", 0)
ID, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)
OPTIONS = parse(
    {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "fetchOffset.retryIntervalMs": "1"}, streaming=True
)


class ToyBrokers:
    """One partition, from `begins` to `ends`, with the ends of its epochs."""

    def __init__(self, ends: int, epochs: dict[int, EpochEnd], *, topic_id: UUID = ID, begins: int = 0) -> None:
        self.ends = ends
        self.epochs = epochs
        self.topic_id = topic_id
        self.begins = begins
        self.slept = 0
        # How often they are asked before they have heard of the topic.
        self.unheard = 0
        # What one broker says for itself, if that is something else.
        self.one: dict[TopicPartition, UUID] | None = None

    def partitions(self) -> dict[TopicPartition, UUID]:
        return self.agreed(["a"]) if self.one is None else self.one

    def of_topics(self, names: Collection[str]) -> dict[TopicPartition, UUID]:
        return {tp: topic_id for tp, topic_id in self.partitions().items() if tp.topic in names}

    def agreed(self, names: Collection[str]) -> dict[TopicPartition, UUID]:
        if self.unheard:
            self.unheard -= 1
            return {}
        return {A0: self.topic_id} if "a" in names else {}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.begins)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FoundOffset]:
        found = FoundOffset(offset=self.ends, timestamp=-1, leader_epoch=max(self.epochs, default=0))
        return dict.fromkeys(partitions, found)

    def require_epochs(self, epochs: Mapping[TopicPartition, int]) -> bool:
        return True

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {tp: self.epochs.get(epoch, EpochEnd(-1, -1)) for tp, epoch in epochs.items()}

    def epochs_before(
        self, offsets: Mapping[TopicPartition, int], newest: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return {tp: newest[tp] for tp in offsets}

    def sleep(self, seconds: float) -> None:
        self.slept += 1


def planner(brokers: ToyBrokers, *, fail: bool = True) -> Planner:
    return Planner(replace(OPTIONS, fail_on_data_loss=fail), cast(Brokers, brokers))


def metadata(leader_epoch: int) -> ClusterMetadata:
    partition = MetadataResponsePartition(partition_index=0, leader_epoch=leader_epoch)
    return ClusterMetadata(topics={"a": MetadataResponseTopic(name="a", partitions=[partition])})


@pytest.mark.parametrize(("leader_epoch", "stale"), [(5, True), (6, False), (7, False), (-1, False)])
def test_a_leader_older_than_what_was_read_is_not_asked(leader_epoch: int, stale: bool) -> None:
    if not stale:
        refuse_stale(metadata(leader_epoch), {A0: 6})
        return
    with pytest.raises(ApiError) as caught:
        refuse_stale(metadata(leader_epoch), {A0: 6})
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_end_that_is_only_not_known_yet_stays_where_it_was() -> None:
    """A new leader has the records, and learns in a moment that they are committed."""
    start = {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(100, {6: EpochEnd(6, 150)})
    assert planner(brokers).latest(start) == start
    assert brokers.slept == OPTIONS.fetch_offset_retries
    assert planner(brokers).stream_ranges(start, start) == []


def test_an_end_before_what_was_read_is_told_when_the_records_are_gone() -> None:
    start = {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(100, {6: EpochEnd(6, 100)})
    end = planner(brokers).latest(start)
    assert end[A0].offset == 100
    with pytest.raises(DataLoss, match="a-0: offsets 100 to 149 were read and have been replaced"):
        planner(brokers).stream_ranges(start, end)


def test_what_is_the_same_on_both_sides_of_a_loss_is_not_read_again() -> None:
    """Up to 100 the log is what was read, and the new leader does not know yet that all of that is committed; or a
    transaction begins there, whose end was lost. The next batch goes on where histories part, not where readers see to.
    """
    start = {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(90, {6: EpochEnd(6, 100), 7: EpochEnd(7, 104)})
    end = planner(brokers, fail=False).latest(start)
    assert end[A0].offset == 100
    assert planner(brokers, fail=False).stream_ranges(start, end) == []
    brokers.ends = 104
    [wanted] = planner(brokers, fail=False).stream_ranges(end, planner(brokers).latest(end))
    assert (wanted.start, wanted.end) == (100, 104)


def test_an_epoch_that_nobody_knows_goes_on_at_the_end_and_not_at_the_beginning() -> None:
    """Or the whole partition would be delivered again."""
    start, end = {A0: Position(150, 6, ID)}, {A0: Position(180, 8, ID)}
    ranges = planner(ToyBrokers(180, {}), fail=False).stream_ranges(start, end)
    assert [(each.start, each.end) for each in ranges] == [(150, 180)]


def test_a_task_is_told_the_epoch_in_which_its_range_ends() -> None:
    start, end = {A0: Position(100, 5, ID)}, {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(150, {5: EpochEnd(5, 120), 6: EpochEnd(6, 150)})
    [wanted] = planner(brokers).stream_ranges(start, end)
    assert (wanted.epoch, wanted.end_epoch) == (5, 6)


def test_a_task_of_a_batch_query_is_told_the_newest_epoch_there_was() -> None:
    """Tasks may wait long for their turn, and history be rewritten meanwhile."""
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    brokers = ToyBrokers(150, {5: EpochEnd(5, 120), 6: EpochEnd(6, 150)})
    start = '{"a": {"0": {"offset": 100, "epoch": 5}}}'

    def planned(**options: str) -> OffsetRange:
        [wanted] = Planner(parse(given | options, streaming=False), cast(Brokers, brokers)).batch_ranges()
        return wanted

    assert (planned().epoch, planned().end_epoch) == (-1, 6)
    assert (planned(startingOffsets=start).epoch, planned(startingOffsets=start).end_epoch) == (5, 6)
    # What the user waits for is not written yet: nobody knows in which epoch it will be.
    assert planned(endingOffsets='{"a": {"0": 151}}').end_epoch == -1
    assert planned(endingOffsets='{"a": {"0": 150}}').end_epoch == 6


def test_a_batch_from_an_offset_that_was_cut_away_names_what_was_lost() -> None:
    """The log has not grown again: it ends before what the user had read."""
    given = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "a",
        "startingOffsets": '{"a": {"0": {"offset": 150, "epoch": 6}}}',
    }
    brokers = cast(Brokers, ToyBrokers(100, {6: EpochEnd(5, 90), 7: EpochEnd(7, 100)}))
    with pytest.raises(DataLoss, match="a-0: offsets 90 to 149 were read and have been replaced"):
        Planner(parse(given, streaming=False), brokers).batch_ranges()
    [wanted] = Planner(parse(given | {"failOnDataLoss": "false"}, streaming=False), brokers).batch_ranges()
    assert (wanted.start, wanted.end) == (90, 100)
    # Without an epoch nobody can tell more than that the log is too short.
    plain = given | {"startingOffsets": '{"a": {"0": 150}}'}
    with pytest.raises(DataLoss, match="a-0: the query starts at offset 150, and the log ends at 100"):
        Planner(parse(plain, streaming=False), brokers).batch_ranges()
    [wanted] = Planner(parse(plain | {"failOnDataLoss": "false"}, streaming=False), brokers).batch_ranges()
    assert wanted.size == 0


def test_a_topic_made_anew_is_read_from_its_beginning_if_that_is_wanted() -> None:
    start, end = {A0: Position(150, 6, ID)}, {A0: Position(40, 0, OTHER)}
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)}, topic_id=OTHER)
    assert planner(brokers).latest(start) == end
    # Another topic is not behind.
    assert brokers.slept == 0
    with pytest.raises(DataLoss, match="recreated"):
        planner(brokers).stream_ranges(start, end)
    ranges = planner(brokers, fail=False).stream_ranges(start, end)
    assert [(each.start, each.end, each.topic_id) for each in ranges] == [(0, 40, OTHER)]


@pytest.mark.parametrize("now", [OTHER, None])
def test_a_batch_whose_topic_was_made_anew_since_it_was_planned_can_be_run_again(
    now: UUID | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Both of its ends are of the old topic, of which no broker has anything. A query that takes losses has to get past
    it, and the next batch begins with the new topic.
    """
    start, end = {A0: Position(100, 5, ID)}, {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)}, topic_id=now or ID)
    brokers.unheard = 100 if now is None else 0
    reason = "the topic no longer exists" if now is None else "it was recreated"
    text = f"a-0: offsets 100 to 149, up to leader epoch 6, cannot be read any more: .*{reason}"
    with pytest.raises(DataLoss, match=text):
        planner(brokers).stream_ranges(start, end)
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        assert planner(brokers, fail=False).stream_ranges(start, end) == []
    assert re.search(text, caplog.text)
    # The first batch of all, with a partition that was new.
    assert planner(brokers, fail=False).stream_ranges({}, end) == []
    # Nothing was to be read: that what had been read is gone, the next batch tells.
    assert planner(brokers).stream_ranges(end, end) == []
    if now is not None:
        after = planner(brokers, fail=False).latest(end)
        ranges = planner(brokers, fail=False).stream_ranges(end, after)
        assert [(each.start, each.end, each.topic_id) for each in ranges] == [(0, 40, OTHER)]


def test_a_batch_is_run_again_whatever_one_broker_says_of_its_topic() -> None:
    start, end = {A0: Position(100, 5, ID)}, {A0: Position(150, 6, ID)}
    brokers = ToyBrokers(150, {5: EpochEnd(5, 120), 6: EpochEnd(6, 150)})
    for one in ({}, {A0: OTHER}):
        brokers.one = one
        [wanted] = planner(brokers).stream_ranges(start, end)
        assert (wanted.start, wanted.end, wanted.topic_id) == (100, 150, ID)


def test_a_topic_that_is_not_there_is_named_and_not_taken_for_an_empty_one() -> None:
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)})
    brokers.unheard = 100
    with pytest.raises(OptionError, match="subscribe: there is no topic a"):
        planner(brokers).initial()
    batch = parse({"kafka.bootstrap.servers": "x:1", "assign": '{"a": [0]}'}, streaming=False)
    with pytest.raises(OptionError, match="assign: there is no partition a-0"):
        Planner(replace(batch, fetch_offset_retries=0), cast(Brokers, brokers)).batch_ranges()


def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again() -> None:
    """Or a query that takes losses would begin anew with a topic of which it has read a part."""
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)})
    brokers.unheard = 3
    assert planner(brokers).initial() == {A0: Position(40, 0, ID)}
    brokers.unheard = 3
    assert planner(brokers, fail=False).latest({A0: Position(30, 0, ID)}) == {A0: Position(40, 0, ID)}
    assert brokers.slept == 2 * 2


@pytest.mark.parametrize("one", [{}, {A0: OTHER}])
def test_a_partition_is_not_gone_because_one_broker_says_so(one: dict[TopicPartition, UUID]) -> None:
    """It may be cut off from the others. The partition would be new once it has heard of it: all rows twice."""
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)})
    brokers.one = one
    assert planner(brokers, fail=False).latest({A0: Position(30, 0, ID)}) == {A0: Position(40, 0, ID)}
    assert brokers.slept == 0
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    start = '{"a": {"id": "AAAAAAAAAAcAAAAAAAAAAA", "0": {"offset": 30, "epoch": 0}}}'
    batch = parse(given | {"startingOffsets": start}, streaming=False)
    [wanted] = Planner(batch, cast(Brokers, brokers)).batch_ranges()
    assert (wanted.start, wanted.end, wanted.topic_id) == (30, 40, ID)


def test_what_is_not_subscribed_to_any_more_is_not_looked_for() -> None:
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)})
    start = {A0: Position(30, 0, ID), TopicPartition("b", 0): Position(7, 0, OTHER)}
    assert planner(brokers).latest(start).keys() == {A0}
    assert brokers.slept == 0


def test_a_partition_that_came_is_read_from_its_beginning_and_one_that_went_is_told() -> None:
    end = {A0: Position(40, 0, ID)}
    brokers = ToyBrokers(40, {0: EpochEnd(0, 40)})
    assert [(each.start, each.end) for each in planner(brokers).stream_ranges({}, end)] == [(0, 40)]
    with pytest.raises(DataLoss, match="a-0 no longer exists; it was read up to offset 40"):
        planner(brokers).stream_ranges(end, {})
    with pytest.raises(DataLoss, match="a-0 is new and begins at 9"):
        planner(ToyBrokers(40, {0: EpochEnd(0, 40)}, begins=9)).stream_ranges({}, end)


@pytest.mark.parametrize("epoch", ["", ', "epoch": 5'])
def test_a_stream_begins_in_the_topic_whose_id_was_given_and_in_no_other(epoch: str) -> None:
    """Offsets of a topic that was deleted mean nothing in the one that has its name now."""
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    start = f'{{"a": {{"id": "{uuid_to_text(OTHER)}", "0": {{"offset": 100{epoch}}}}}}}'
    brokers = ToyBrokers(150, {5: EpochEnd(5, 150)})
    story = Planner(parse(given | {"startingOffsets": start}, streaming=True), cast(Brokers, brokers))
    begun = story.initial()
    with pytest.raises(DataLoss, match="a-0: offsets 0 to 99 were read and have been replaced: the topic had the id"):
        story.stream_ranges(begun, story.latest(begun))


def test_a_word_for_an_offset_is_looked_up_whatever_stands_beside_it() -> None:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    brokers = ToyBrokers(150, {5: EpochEnd(5, 150)}, begins=20)
    for word, offset in ((-1, 150), (-2, 20)):
        start = f'{{"a": {{"0": {{"offset": {word}, "epoch": 5}}}}}}'
        story = Planner(parse(given | {"startingOffsets": start}, streaming=True), cast(Brokers, brokers))
        assert story.initial() == {A0: Position(offset, 5, ID)}
