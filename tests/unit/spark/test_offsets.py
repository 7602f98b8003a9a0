"""S5: what a checkpoint holds, and how a rewritten history is found."""

import json
import re
from uuid import UUID

import pytest

from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.spark.brokers import EpochEnd
from tidelog.spark.history import rewritten, to_ask, vanished
from tidelog.spark.offsets import BadOffsets, Position, backlog, offsets_json, parse_offsets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)


def test_offsets_come_back_from_json_as_they_were() -> None:
    offsets = {A1: Position(5, 2, ID), A0: Position(101, 7, ID), B0: Position(0)}
    text = json.dumps(offsets_json(offsets))
    assert parse_offsets(json.loads(text)) == offsets
    assert json.loads(text)["a"]["0"] == {"offset": 101, "epoch": 7}
    # Spark compares texts to see whether there is anything new.
    assert text == json.dumps(offsets_json(dict(sorted(offsets.items()))))


def test_the_plain_form_of_the_kafka_source_is_read() -> None:
    assert parse_offsets({"a": {"0": 23, "1": -2}}) == {A0: Position(23), A1: Position(-2)}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"a": 5}, "'a' needs an offset for each partition"),
        ({"a": {"x": 5}}, "'x', which is no partition"),
        ({"a": {"0": "5"}}, "a-0 has '5', which is no offset"),
        ({"a": {"0": True}}, "a-0 has True"),
        ({"a": {"0": {"epoch": 1}}}, "a-0 has"),
        ({"a": {"0": {"offset": 1, "epoch": -2}}}, "a-0 has"),
        ({"a": {"id": "short", "0": 1}}, "'short' for its id"),
    ],
)
def test_what_is_no_offset_is_refused(found: dict[str, object], says: str) -> None:
    with pytest.raises(BadOffsets) as caught:
        parse_offsets(found)
    assert says in str(caught.value)


def test_backlog_counts_what_both_know() -> None:
    start = {A0: Position(5), A1: Position(9)}
    assert backlog(start, {A0: Position(8), A1: Position(7), B0: Position(100)}) == 3


def test_only_where_an_epoch_is_known_is_it_asked_for() -> None:
    assert to_ask({A0: Position(5, 2), A1: Position(0, 2), B0: Position(9)}) == {A0: 2}


@pytest.mark.parametrize(
    ("end", "first", "says"),
    [
        # The same epoch goes on past what was read, or a later one begins there.
        (EpochEnd(7, 101), None, ""),
        (EpochEnd(7, 500), None, ""),
        # An older epoch that ends behind us is no divergence.
        (EpochEnd(5, 101), None, ""),
        (EpochEnd(7, 90), 90, "leader epoch 7, which ends at offset 90 now"),
        (EpochEnd(5, 80), 80, "the leader has epoch 5 up to offset 80"),
        (EpochEnd(-1, -1), 0, "which the leader does not know"),
    ],
)
def test_diverged_is_what_ends_before_we_read(end: EpochEnd, first: int | None, says: str) -> None:
    found = rewritten({A0: Position(101, 7, ID)}, {A0: ID}, {A0: end})
    assert [each.first for each in found] == ([] if first is None else [first])
    for each in found:
        assert f"a-0: offsets {first} to 100 were read" in str(each)
        assert says in str(each)


@pytest.mark.parametrize(
    ("begun", "ids", "told"),
    [
        (Position(3, 1, ID), {A0: ID}, None),
        (Position(3, 1, ID), {A0: ZERO_UUID}, None),
        (Position(3, 1, ID), {A0: OTHER}, "offsets 3 to 8, up to leader epoch 2, cannot be read any more: the"),
        # With fewer partitions.
        (Position(3, 1, ID), {A1: OTHER}, "recreated"),
        (Position(3, 1, ID), {A1: ID}, "the partition no longer exists"),
        (Position(3, 1, ID), {}, "offsets 3 to 8, .*: the topic no longer exists"),
        (None, {}, "offsets 0 to 8"),
        (Position(3, 1, OTHER), {}, "offsets 0 to 8"),
    ],
)
def test_of_a_topic_that_is_gone_nothing_can_be_read(
    begun: Position | None, ids: dict[TopicPartition, UUID], told: str | None
) -> None:
    found = vanished({} if begun is None else {A0: begun}, {A0: Position(9, 2, ID)}, ids)
    assert len(found) == (told is not None)
    if told is not None:
        assert re.search(told, str(found[0]))


def test_a_topic_made_anew_is_another_history() -> None:
    start = {A0: Position(101, 7, ID), B0: Position(3, 1)}
    [found] = rewritten(start, {A0: OTHER, B0: OTHER}, {A0: EpochEnd(7, 500), B0: EpochEnd(1, 9)})
    assert (found.tp, found.first, found.read_to) == (A0, 0, 101)
    assert "recreated" in str(found)
