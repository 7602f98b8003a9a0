"""What the page shows, and which of it is new since somebody looked last.

Whoever looks keeps a cursor, nothing else: no queue is kept for anybody, so a page that does not read costs nothing,
and one that comes back after a while gets what is so now.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

MOST_ENTRIES: Final = 500
# Removals that are remembered; who has missed more is told everything.
MOST_REMOVED: Final = 2_000

K = TypeVar("K")
V = TypeVar("V")

PartitionKey = tuple[str, int]


class Replica(NamedTuple):
    """One replica in the words of its own node. A tuple, as `Partition`: thousands change at once."""

    role: str
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


class Partition(NamedTuple):
    """A partition as the newest metadata has it, and its replicas by node."""

    topic: str
    number: int
    topic_id: str = ""
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    recovering: bool = False
    # Of the leader: what it has asked for and the controller has not decided, and the least ISR for acks=all.
    asked_isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    # Since when its high watermark has stood below the end of the log, once that is long.
    stalled_ms: int | None = None
    held: Mapping[int, Replica] = MappingProxyType({})

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.number

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def leading(self) -> Replica | None:
        """The leader's own replica, while it says itself that it leads."""
        found = self.held.get(self.leader)
        return found if found is not None and found.role == "leader" else None

    def row(self) -> list[Any]:
        return [
            self.topic,
            self.number,
            self.leader,
            self.leader_epoch,
            self.partition_epoch,
            self.replicas or sorted(self.held),
            self.isr,
            self.elr,
            self.recovering,
            self.asked_isr,
            self.min_isr,
            self.stalled_ms,
            [(node, *replica) for node, replica in sorted(self.held.items())],
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node: its process as the supervisor sees it, its registration and its place in the quorum."""

    id: int
    state: str = "unknown"
    roles: tuple[str, ...] = ()
    port: int = 0
    pid: int | None = None
    deaf: tuple[int, ...] = ()
    mute: tuple[int, ...] = ()
    delay_ms: int = 0
    # Whether it tells us anything: its offsets are those of before otherwise.
    heard: bool = False
    broker_epoch: int = -1
    standing: str = "unknown"
    quorum_role: str = ""
    quorum_epoch: int = -1
    quorum_leader: int = -1
    metadata_end: int = -1
    metadata_high_watermark: int = -1
    votes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the timeline. Several of one cause are one line: `count`, and the first of the `partitions`."""

    id: int
    time_ms: int
    kind: str
    severity: str
    text: str
    why: str = ""
    rules: tuple[str, ...] = ()
    node: int | None = None
    partitions: tuple[str, ...] = ()
    count: int = 1


class Versions(Generic[K, V]):
    """A mapping that knows what changed after a version. In the order of the last change, so that looking is short."""

    def __init__(self) -> None:
        self._values: dict[K, tuple[int, V]] = {}
        self._removed: dict[K, int] = {}
        # Removals up to this version may have been forgotten.
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._values.values())

    def get(self, key: K) -> V | None:
        found = self._values.get(key)
        return None if found is None else found[1]

    def put(self, key: K, value: V, version: int) -> None:
        self._values.pop(key, None)
        self._removed.pop(key, None)
        self._values[key] = version, value

    def remove(self, key: K, version: int) -> None:
        if self._values.pop(key, None) is not None:
            self._removed[key] = version
            if len(self._removed) > MOST_REMOVED:
                self.forgotten = self._removed.pop(next(iter(self._removed)))

    def since(self, version: int) -> list[V]:
        """Oldest first."""
        found: list[V] = []
        for changed, value in reversed(self._values.values()):
            if changed <= version:
                break
            found.append(value)
        return found[::-1]

    def removed_since(self, version: int) -> list[K]:
        found: list[K] = []
        for key, changed in reversed(self._removed.items()):
            if changed <= version:
                break
            found.append(key)
        return found

    def copy(self) -> "Versions[K, V]":
        twin = copy.copy(self)
        twin._values, twin._removed = dict(self._values), dict(self._removed)
        return twin


class Board:
    """Everything the page shows. Changed through `put_…`, `remove_partition` and `tell` alone."""

    def __init__(self) -> None:
        self.version = 1
        self.now_ms = 0
        self.partitions: Versions[PartitionKey, Partition] = Versions()
        self.nodes: Versions[int, NodeRow] = Versions()
        self.groups: Versions[str, dict[str, Any]] = Versions()
        self.timeline: Versions[int, Entry] = Versions()
        self._next_entry = 1

    def put_partition(self, partition: Partition) -> None:
        if self.partitions.get(partition.key) != partition:
            self.partitions.put(partition.key, partition, self._bump())

    def remove_partition(self, key: PartitionKey) -> None:
        self.partitions.remove(key, self._bump())

    def put_node(self, node: NodeRow) -> None:
        if self.nodes.get(node.id) != node:
            self.nodes.put(node.id, node, self._bump())

    def node(self, node_id: int) -> NodeRow:
        return self.nodes.get(node_id) or NodeRow(id=node_id)

    def put_groups(self, groups: Mapping[str, dict[str, Any]]) -> None:
        for group in [each["id"] for each in self.groups if each["id"] not in groups]:
            self.groups.remove(group, self._bump())
        for name, group in groups.items():
            if self.groups.get(name) != group:
                self.groups.put(name, group, self._bump())

    def tell(self, entry: Entry) -> int:
        """Adds to the timeline, or (with an id) puts another in its place; returns its id."""
        if not entry.id:
            entry = replace(entry, id=self._next_entry)
            self._next_entry += 1
        self.timeline.put(entry.id, entry, self._bump())
        if len(self.timeline) > MOST_ENTRIES:
            self.timeline.remove(next(iter(self.timeline)).id, self.version)
        return entry.id

    def changes(self, cursor: int) -> dict[str, Any]:
        """What is new since the version `cursor`; 0: everything."""
        parts: tuple[Versions[Any, Any], ...] = (self.partitions, self.nodes, self.groups)
        reset = cursor == 0 or cursor > self.version or any(cursor < part.forgotten for part in parts)
        since = 0 if reset else cursor
        found: dict[str, Any] = {
            "partitions": [each.row() for each in self.partitions.since(since)],
            "nodes": [as_json(each) for each in self.nodes.since(since)],
            "groups": self.groups.since(since),
            "timeline": [as_json(each) for each in self.timeline.since(since)],
        }
        if not reset:
            found["gone"] = self.partitions.removed_since(since)
            found["groups_gone"] = self.groups.removed_since(since)
        told = {name: rows for name, rows in found.items() if rows}
        return {"version": self.version, "now": self.now_ms, **({"reset": True} if reset else {}), **told}

    def copy(self) -> "Board":
        twin = copy.copy(self)
        twin.partitions, twin.nodes = self.partitions.copy(), self.nodes.copy()
        twin.groups, twin.timeline = self.groups.copy(), self.timeline.copy()
        return twin

    def _bump(self) -> int:
        self.version += 1
        return self.version


def as_json(row: NodeRow | Entry) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
