"""Whether the history that a query has read is still the one the cluster has (S5).

An unclean election, a truncation or a topic made anew under its name may put other records where a reader has been. The
offsets go on counting, so a reader that keeps offsets alone never notices. Pure: the answers are handed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.core.ids import ZERO_UUID, TopicPartition, uuid_to_text
from tidelog.spark.brokers import EpochEnd
from tidelog.spark.offsets import NO_EPOCH, Position, StreamOffsets, is_another

ADVICE: Final = "With failOnDataLoss=false the query continues with the records that exist"


class DataLoss(RuntimeError):
    """Records are gone, or others stand where they stood. Made with what and where; how to go on it says itself."""

    def __str__(self) -> str:
        return f"{self.args[0]}. {ADVICE}"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What was read from `first` on up to `read_to` is no longer in the log."""

    tp: TopicPartition
    first: int
    read_to: int
    reason: str

    def __str__(self) -> str:
        return f"{self.tp}: offsets {self.first} to {self.read_to - 1} were read and have been replaced: {self.reason}"


def to_ask(start: StreamOffsets) -> dict[TopicPartition, int]:
    """Whose epochs the leaders are to be asked for."""
    return {tp: at.epoch for tp, at in start.items() if at.epoch != NO_EPOCH and at.offset > 0}


def rewritten(
    start: StreamOffsets, ids: Mapping[TopicPartition, UUID], ends: Mapping[TopicPartition, EpochEnd]
) -> list[Rewritten]:
    """Of what was read up to `start`. A lower epoch in an answer says nothing by itself: only where it ends does."""
    found = []
    for tp, at in sorted(start.items()):
        now = ids.get(tp, ZERO_UUID)
        if is_another(at.topic_id, now):
            found.append(Rewritten(tp, 0, at.offset, _made_anew(at.topic_id, now)))
            continue
        end = ends.get(tp)
        if end is not None and (end.epoch < 0 or end.end_offset < at.offset):
            found.append(Rewritten(tp, max(end.end_offset, 0), at.offset, _reason(at, end)))
    return found


@dataclass(frozen=True, slots=True)
class Vanished:
    """What a batch was to read of a topic that was deleted, or made anew, since it was planned."""

    tp: TopicPartition
    first: int
    end: int
    epoch: int
    reason: str

    def __str__(self) -> str:
        epochs = "" if self.epoch == NO_EPOCH else f", up to leader epoch {self.epoch},"
        return f"{self.tp}: offsets {self.first} to {self.end - 1}{epochs} cannot be read any more: {self.reason}"


def vanished(start: StreamOffsets, end: StreamOffsets, ids: Mapping[TopicPartition, UUID]) -> list[Vanished]:
    """The partitions of a planned batch of which nothing is left, also those of which nothing was to be read."""
    found = []
    topics = {tp.topic: topic_id for tp, topic_id in ids.items()}
    for tp, at in sorted(end.items()):
        now = topics.get(tp.topic, ZERO_UUID)
        if is_another(at.topic_id, now):
            reason = _made_anew(at.topic_id, now)
        elif tp not in ids:
            reason = f"the {'partition' if tp.topic in topics else 'topic'} no longer exists"
        else:
            continue
        begun = start.get(tp)
        # A partition that was new then, or another topic's before, was to be read from its beginning.
        first = 0 if begun is None or is_another(begun.topic_id, at.topic_id) else begun.offset
        found.append(Vanished(tp, first, at.offset, at.epoch, reason))
    return found


def _made_anew(before: UUID, now: UUID) -> str:
    return f"the topic had the id {uuid_to_text(before)} and now has {uuid_to_text(now)}: it was recreated"


def _reason(at: Position, end: EpochEnd) -> str:
    if end.epoch < 0:
        return f"they were read up to leader epoch {at.epoch}, which the leader does not know"
    if end.epoch == at.epoch:
        return f"they were read in leader epoch {at.epoch}, which ends at offset {end.end_offset} now"
    return (
        f"they were read up to leader epoch {at.epoch}; the leader has epoch {end.epoch} up to offset "
        f"{end.end_offset} and nothing between the two"
    )
