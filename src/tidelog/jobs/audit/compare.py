"""What to compare, and what a difference is: pure, so that every case has a test without Spark."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit.rows import COMPARED, AuditRow
from tidelog.metadata.names import is_internal

_NAMES: Final = {
    "last_offset": "last offset",
    "leader_epoch": "leader epoch",
    "crc": "CRC",
    "size": "size",
    "records": "number of records",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    """Of one replica: its batches from the partition's `start` on below `until` have to be those of the others."""

    node: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One partition."""

    tp: TopicPartition
    start: int
    replicas: Sequence[ReplicaBounds]

    @property
    def end(self) -> int:
        """Where fewer than two replicas are left to compare."""
        ends = sorted((each.until for each in self.replicas), reverse=True)
        return max(self.start, ends[1]) if len(ends) > 1 else self.start

    def nodes_at(self, offset: int) -> list[int]:
        return [each.node for each in self.replicas if each.until > offset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a disk, or a broker, tells of a replica."""

    node: int
    log_start: int = 0
    high_watermark: int = 0
    clean_until: int | None = None
    # None if nobody knows.
    in_sync: bool | None = None


def comparison_of(tp: TopicPartition, replicas: Iterable[Facts]) -> Comparison:
    """A replica in sync has everything below the highest high watermark; another one may have what was never
    committed, or be behind, above its own. What was compacted differs lawfully, and so do the beginnings of logs.
    """
    known = list(replicas)
    committed = max((each.high_watermark for each in known), default=0)
    start = max((max(each.log_start, each.clean_until or 0) for each in known), default=0)
    bounds = [
        ReplicaBounds(node=each.node, until=committed if each.in_sync else each.high_watermark)
        for each in sorted(known, key=lambda each: each.node)
    ]
    return Comparison(tp=tp, start=start, replicas=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something wrong: where, and what. The node that stands against the others, if it can be told."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    nodes: Sequence[int]
    place: str
    position: int
    what: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"nodes": list(self.nodes)}


class Verdict(StrEnum):
    """What comes last is worse."""

    CLEAN = "clean"
    # Nothing is wrong with what was read, and not every replica was.
    INCOMPLETE = "incomplete"
    # Replicas differ, or something is damaged.
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A replica that could not be read, and why: nothing is known of it."""

    tp: TopicPartition
    node: int
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {"node": self.node, "why": self.why}


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """What was found out about a partition. `nodes` are those whose replicas were read."""

    topic: str
    partition: int
    nodes: Sequence[int]
    start: int
    end: int
    batches: int = 0
    records: int = 0
    bytes: int = 0
    differing: int = 0
    damaged: int = 0
    first: Difference | None = None
    unread: Sequence[Unread] = ()

    @property
    def verdict(self) -> Verdict:
        if self.first is not None:
            return Verdict.WRONG
        return Verdict.INCOMPLETE if self.unread else Verdict.CLEAN

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "verdict": self.verdict.value,
            "nodes": list(self.nodes),
            "unread": [each.as_dict() for each in self.unread],
            "first": None if self.first is None else self.first.as_dict(),
        }


def with_unread(results: Iterable[PartitionResult], unread: Iterable[Unread]) -> list[PartitionResult]:
    """The results, told which replicas are missing from them; partitions of which none was read have one too."""
    by_partition = {TopicPartition(each.topic, each.partition): each for each in results}
    for each in unread:
        tp = each.tp
        if tp not in by_partition:
            by_partition[tp] = PartitionResult(topic=tp.topic, partition=tp.partition, nodes=(), start=0, end=0)
        by_partition[tp].unread = (*by_partition[tp].unread, each)
    return [by_partition[tp] for tp in sorted(by_partition)]


@dataclass(slots=True, kw_only=True)
class Audit:
    """The whole report."""

    of: str
    partitions: list[PartitionResult] = field(default_factory=list)
    # Each batch that is damaged by itself, as far as they are listed.
    damage: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Clean partitions of internal topics, once `fold_internal` has moved them here.
    folded: list[PartitionResult] = field(default_factory=list)

    def fold_internal(self) -> None:
        """Takes clean partitions of internal topics out of `partitions`. Damage is never folded."""
        audited, self.partitions = self.partitions, []
        for each in audited:
            clean = is_internal(each.topic) and each.verdict is Verdict.CLEAN
            (self.folded if clean else self.partitions).append(each)

    @property
    def total(self) -> int:
        """The number of audited partitions."""
        return len(self.partitions) + len(self.folded)

    @property
    def verdict(self) -> Verdict:
        """That of the worst partition."""
        return max((each.verdict for each in self.partitions), key=list(Verdict).index, default=Verdict.CLEAN)

    @property
    def wrong(self) -> list[PartitionResult]:
        return [each for each in self.partitions if each.verdict is Verdict.WRONG]

    @property
    def unread(self) -> list[Unread]:
        return [replica for each in self.partitions for replica in each.unread]

    @property
    def damage_left_out(self) -> int:
        """How much is counted, and not listed."""
        return sum(each.damaged for each in self.partitions) - len(self.damage)

    def as_dict(self) -> dict[str, Any]:
        return {
            "of": self.of,
            "verdict": self.verdict.value,
            "clean": self.verdict is Verdict.CLEAN,
            "partitions": [each.as_dict() for each in self.partitions],
            "internal_partitions_not_listed": len(self.folded),
            "damage": [each.as_dict() for each in self.damage],
            "damage_left_out": self.damage_left_out,
            "notes": self.notes,
        }


def explain(comparison: Comparison, base_offset: int, rows: Sequence[AuditRow]) -> Difference:
    """In words how the replicas differ at a batch. `rows` are the batches that hold `base_offset`."""
    by_node: dict[int, AuditRow] = {}
    for row in rows:
        # Of two that claim the offset the one that begins there: the other one is told as out of order.
        known = by_node.get(row.node)
        if known is not None and known.base_offset == row.base_offset == base_offset:
            return replace(damage_of(row), what=f"node {row.node} has offset {base_offset} twice")
        if known is None or row.base_offset == base_offset:
            by_node[row.node] = row
    nodes = comparison.nodes_at(base_offset)
    kinds = {node: _signature(by_node.get(node), base_offset) for node in nodes}
    usual, _ = max(Counter(kinds.values()).items(), key=lambda item: (item[1], item[0] is not None))
    agreeing = [node for node in nodes if kinds[node] == usual]
    others = [node for node in nodes if kinds[node] != usual]
    if len(agreeing) <= len(others):
        # No majority: the row with which it begins is as good as another.
        usual = kinds[agreeing[0]]
    odd = others[0]
    its, reference = by_node.get(odd), by_node.get(agreeing[0])
    shown = its or reference
    assert shown is not None
    return Difference(
        topic=comparison.tp.topic,
        partition=comparison.tp.partition,
        first_offset=base_offset,
        last_offset=max(each.last_offset for each in (its, reference) if each is not None),
        nodes=others,
        place=shown.place,
        position=shown.position,
        what=_words(odd, its, agreeing, reference, majority=len(agreeing) > len(others)),
    )


def _signature(row: AuditRow | None, base_offset: int) -> tuple[int, ...] | None:
    if row is None:
        return None
    return (row.base_offset - base_offset, *(getattr(row, name) for name in COMPARED))


def _words(
    odd: int, row: AuditRow | None, agreeing: Sequence[int], reference: AuditRow | None, *, majority: bool
) -> str:
    against, verb = _nodes(agreeing), "do" if len(agreeing) > 1 else "does"
    if row is None:
        assert reference is not None
        return f"node {odd} does not have offsets {reference.base_offset} to {reference.last_offset}, {against} {verb}"
    if reference is None:
        return f"node {odd} has offsets {row.base_offset} to {row.last_offset}, {against} {verb} not"
    differing = [
        f"{_NAMES[name]} {_value(name, row)} instead of {_value(name, reference)}"
        for name in COMPARED
        if getattr(row, name) != getattr(reference, name)
    ]
    if row.base_offset != reference.base_offset:
        differing.insert(0, f"first offset {row.base_offset} instead of {reference.base_offset}")
    words = f"node {odd} has another batch than {against}: {', '.join(differing)}"
    return words if majority else f"{words} (it is unknown which one is right)"


def _value(name: str, row: AuditRow) -> str:
    value = getattr(row, name)
    return f"{value:#010x}" if name == "crc" else str(value)


def _nodes(nodes: Sequence[int]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {' and '.join(str(node) for node in nodes)}"


def first_of(found: Iterable[Difference]) -> Difference | None:
    """Damage goes before a difference at the same offset: it says who is wrong."""
    return min(found, key=lambda each: each.first_offset, default=None)


def damage_of(row: AuditRow | Mapping[str, Any]) -> Difference:
    told = row if isinstance(row, AuditRow) else AuditRow(**row)
    return Difference(
        topic=told.topic,
        partition=told.partition,
        first_offset=told.base_offset,
        last_offset=told.last_offset,
        nodes=[told.node],
        place=told.place,
        position=told.position,
        what=told.what,
    )
