"""The vocabulary of events: each is plain data, one line of text, and ready for JSON."""

import dataclasses
import json
import string
import typing
from uuid import UUID

import pytest

from tidelog.core import events
from tidelog.core.events import Event, IsrChanged, LogTruncated, PartitionEvent, Severity, TopicCreated

KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind not in (Event, PartitionEvent)
]
SAMPLES = {
    int: 7,
    str: "a\nb",
    bool: True,
    UUID: UUID(int=5),
    tuple[int, ...]: (1, 2),
    tuple[str, ...]: ("x", "y"),
    tuple[tuple[str, int, int, int], ...]: (("x", 0, 1, 2),),
}


def sample(kind: type[Event]) -> Event:
    hints = typing.get_type_hints(kind)
    return kind(**{field.name: SAMPLES[hints[field.name]] for field in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_an_event_is_one_line_and_json(kind: type[Event]) -> None:
    event = sample(kind)
    assert event.text() and event.text().isprintable()
    told = json.loads(json.dumps(event.as_dict()))
    assert told["event"] == kind.kind
    assert set(told) == {"event"} | {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_template_names_only_fields(kind: type[Event]) -> None:
    named = {name for _, name, _, _ in string.Formatter().parse(kind.template) if name is not None}
    assert named <= {field.name for field in dataclasses.fields(kind)}


def test_kinds_are_distinct() -> None:
    assert len({kind.kind for kind in KINDS}) == len(KINDS) >= 15


def test_a_missing_leader_is_none_and_not_a_node() -> None:
    assert events.QuorumLeaderChanged(leader=-1, epoch=2).text() == "metadata quorum: leader none in epoch 2"
    follows = events.FollowingStarted(
        topic="orders", partition=0, leader=-1, leader_epoch=3, log_end_offset=9, high_watermark=8
    )
    assert follows.text() == "orders-0: follower in epoch 3, leader none, LEO 9, HW 8"


def test_an_isr_change_tells_its_story() -> None:
    event = IsrChanged(
        topic="orders",
        partition=0,
        leader_epoch=3,
        old_isr=(1, 2),
        new_isr=(1,),
        log_end_offset=5,
        high_watermark=4,
        reason="broker 2 lags",
    )
    assert event.text() == "orders-0: ISR [1,2] to [1] in epoch 3, LEO 5, HW 4: broker 2 lags"
    assert event.kind == "isr_changed"


def test_ids_are_kafkas_text_and_severity_is_part_of_the_kind() -> None:
    created = TopicCreated(topic="t", topic_id=UUID(int=1), partitions=1, replication_factor=1)
    assert created.as_dict()["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert created.severity is Severity.INFO
    assert LogTruncated.severity is Severity.WARNING


def test_an_event_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample(LogTruncated).topic = "other"  # type: ignore[attr-defined]
