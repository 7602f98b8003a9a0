"""What a streaming query keeps in its checkpoint (S5): for every partition the next offset to read, the leader epoch of
the batch before it, and for every topic its id. An offset alone cannot tell whether the history behind it is still the
one that was read.

``{"orders": {"id": "…", "0": {"offset": 101, "epoch": 7}}}``. The plain form of Spark's Kafka source,
``{"orders": {"0": 101}}``, is read as well: a checkpoint of that source goes on here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tidelog.core.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

NO_EPOCH: Final = -1
_ID: Final = "id"


class BadOffsets(ValueError):
    """Not in one of the two forms."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset, the epoch of the batch with the one before (-1: not known), the topic (zero: not known)."""

    offset: int
    epoch: int = NO_EPOCH
    topic_id: UUID = ZERO_UUID


def is_another(topic_id: UUID, now: UUID) -> bool:
    """Whether a topic was made anew. Of one without an id nobody can tell."""
    return ZERO_UUID not in (topic_id, now) and topic_id != now


StreamOffsets = Mapping[TopicPartition, Position]


def parse_offsets(found: Mapping[str, Any]) -> dict[TopicPartition, Position]:
    offsets: dict[TopicPartition, Position] = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, Mapping):
            raise BadOffsets(f'{topic!r} needs an offset for each partition, as in {{"{topic}": {{"0": 23}}}}')
        topic_id = _id(topic, partitions[_ID]) if _ID in partitions else ZERO_UUID
        for number, value in partitions.items():
            if number == _ID:
                continue
            if not number.isdecimal():
                raise BadOffsets(f"{topic!r} has {number!r}, which is no partition")
            offset, epoch = _position(topic, number, value)
            offsets[TopicPartition(topic, int(number))] = Position(offset, epoch, topic_id)
    return offsets


def _position(topic: str, number: str, value: Any) -> tuple[int, int]:
    offset: Any
    epoch: Any
    if type(value) is int:
        offset, epoch = value, NO_EPOCH
    elif isinstance(value, Mapping):
        offset, epoch = value.get("offset"), value.get("epoch", NO_EPOCH)
    else:
        offset, epoch = None, NO_EPOCH
    if type(offset) is not int or type(epoch) is not int or offset < -2 or epoch < NO_EPOCH:
        raise BadOffsets(f"{topic}-{number} has {value!r}, which is no offset")
    return offset, epoch


def offsets_json(offsets: StreamOffsets) -> dict[str, dict[str, Any]]:
    """What is handed to Spark, in an order of its own so that equal offsets are equal text."""
    topics: dict[str, dict[str, Any]] = {}
    for tp in sorted(offsets):
        at = offsets[tp]
        topic = topics.setdefault(tp.topic, {} if at.topic_id == ZERO_UUID else {_ID: uuid_to_text(at.topic_id)})
        topic[str(tp.partition)] = {"offset": at.offset, "epoch": at.epoch}
    return topics


def _id(topic: str, text: Any) -> UUID:
    try:
        return uuid_from_text(str(text))
    except ValueError as error:
        raise BadOffsets(f"{topic!r} has {text!r} for its id: {error}") from None


def backlog(start: StreamOffsets, end: StreamOffsets) -> int:
    """Offsets between the two, over all partitions of `end`."""
    return sum(max(at.offset - start[tp].offset, 0) for tp, at in end.items() if tp in start)


def names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions))
