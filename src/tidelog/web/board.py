"""The content of the page, with versions: a page asks for the changes since its cursor.

A page keeps one cursor, and the board keeps no queue. A page that does not read costs nothing; a page that returns
gets the current state.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

MOST_ENTRIES: Final = 500
# Removals to remember. A cursor that missed more gets the whole board.
MOST_REMOVED: Final = 2_000

K = TypeVar("K")
V = TypeVar("V")

PartitionKey = tuple[str, int]


class Replica(NamedTuple):
    """One replica as its own node reports it. A tuple, like `Partition`: thousands change at once."""

    role: str
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


class Partition(NamedTuple):
    """A partition by the newest metadata, with its replicas by node."""

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
    # From the leader: the ISR that it proposed and the controller has not decided, and the effective min ISR.
    asked_isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    # Since when the high watermark stalls below the log end; None until that has lasted long enough.
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
        """The leader's replica, while its node reports itself that it leads."""
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
    """A node: its process by the supervisor, its registration and its role in the metadata quorum."""

    id: int
    state: str = "unknown"
    roles: tuple[str, ...] = ()
    port: int = 0
    pid: int | None = None
    deaf: tuple[int, ...] = ()
    mute: tuple[int, ...] = ()
    delay_ms: int = 0
    # Whether its watch socket is connected. If not, its offsets are the last known ones.
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
    """A line of the timeline. One cause is one line: `count` events, with the first few `partitions`."""

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
    # About internal topics only.
    internal: bool = False


class Versions(Generic[K, V]):
    """A mapping that finds its changes after a version fast: it keeps its values in the order of their last change."""

    def __init__(self) -> None:
        self._values: dict[K, tuple[int, V]] = {}
        self._removed: dict[K, int] = {}
        # Removals up to this version may be forgotten.
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
    """Everything that the page shows. Only `put_…`, `remove_partition` and `tell` change it."""

    def __init__(self) -> None:
        self.version = 1
        self.now_ms = 0
        self.partitions: Versions[PartitionKey, Partition] = Versions()
        self.nodes: Versions[int, NodeRow] = Versions()
        self.groups: Versions[str, dict[str, Any]] = Versions()
        self.timeline: Versions[int, Entry] = Versions()
        # The page shows the first of them, when there are many.
        self.groups_total = 0
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

    def put_groups(self, groups: Mapping[str, dict[str, Any]], total: int | None = None) -> None:
        """Replaces the groups. `total` counts those of the cluster when these are only the first of them."""
        total = len(groups) if total is None else total
        if total != self.groups_total:
            self.groups_total = total
            self._bump()
        for group in [each["id"] for each in self.groups if each["id"] not in groups]:
            self.groups.remove(group, self._bump())
        for name, group in groups.items():
            if self.groups.get(name) != group:
                self.groups.put(name, group, self._bump())

    def tell(self, entry: Entry) -> int:
        """Adds an entry, or replaces the entry with the same id. Returns the id."""
        if not entry.id:
            entry = replace(entry, id=self._next_entry)
            self._next_entry += 1
        self.timeline.put(entry.id, entry, self._bump())
        if len(self.timeline) > MOST_ENTRIES:
            self.timeline.remove(next(iter(self.timeline)).id, self.version)
        return entry.id

    def changes(self, cursor: int) -> dict[str, Any]:
        """The changes since the version `cursor`; 0 means everything."""
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
        filled = {name: rows for name, rows in found.items() if rows}
        head = {"version": self.version, "now": self.now_ms, "groups_total": self.groups_total}
        return {**head, **({"reset": True} if reset else {}), **filled}

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
