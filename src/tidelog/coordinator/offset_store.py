"""Committed offsets, by group, topic and partition."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.coordinator.offsets_records import OffsetCommitValue

OffsetKey = tuple[str, str, int]


@dataclass(slots=True)
class OffsetStore:
    """Holds what is committed and counts what is on its way, so that nobody deletes or expires past a commit in flight.

    Invariant: no empty inner dict, so a group is here exactly when it has offsets.
    """

    _by_group: dict[str, dict[str, dict[int, OffsetCommitValue]]] = field(default_factory=dict)
    _in_flight: Counter[OffsetKey] = field(default_factory=Counter)

    def put(self, group: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        self._by_group.setdefault(group, {}).setdefault(topic, {})[partition] = value

    def remove(self, group: str, topic: str, partition: int) -> None:
        topics = self._by_group.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self._by_group[group]

    def get(self, group: str, topic: str, partition: int) -> OffsetCommitValue | None:
        return self._by_group.get(group, {}).get(topic, {}).get(partition)

    def topics(self, group: str) -> dict[str, dict[int, OffsetCommitValue]]:
        return self._by_group.get(group, {})

    def has_group(self, group: str) -> bool:
        return group in self._by_group

    def items(self, group: str) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        for topic, partitions in self.topics(group).items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def start_flight(self, key: OffsetKey) -> None:
        self._in_flight[key] += 1

    def end_flight(self, key: OffsetKey) -> None:
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]

    def is_in_flight(self, group: str, topic: str, partition: int) -> bool:
        return (group, topic, partition) in self._in_flight

    def in_flight(self, group: str) -> list[tuple[str, int]]:
        return [(topic, partition) for g, topic, partition in self._in_flight if g == group]

    def in_flight_of(self, topics: Collection[str]) -> list[OffsetKey]:
        return [key for key in self._in_flight if key[1] in topics]


def is_other_topic(stored: UUID, asked: UUID) -> bool:
    """The commit was for a topic of the same name that has been deleted since; either side may not know its id."""
    return bool(stored.int and asked.int and stored != asked)
