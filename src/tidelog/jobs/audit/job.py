"""The audit on Spark: one pass over every batch, then a closer look at where replicas part."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.storagelevel import StorageLevel

from tidelog.client.security import parse as parse_security
from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit import layout, live, source
from tidelog.jobs.audit.compare import (
    Audit,
    Comparison,
    Facts,
    PartitionResult,
    ReplicaBounds,
    Unread,
    comparison_of,
    damage_of,
    explain,
    first_of,
    with_unread,
)
from tidelog.jobs.audit.metadata_files import newest_image
from tidelog.jobs.audit.rows import COMPARED, TYPES, AuditRow, Kind
from tidelog.jobs.audit.segments import Segment
from tidelog.jobs.session import kafka_options
from tidelog.metadata.image import ClusterImage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Damage is listed up to here; it is counted whole.
LISTED: Final = 1000
_KEY: Final = ("topic", "partition")


def audit_directories(
    spark: "SparkSession", directories: Sequence[Path], *, topics: Sequence[str] = (), reads_records: bool = True
) -> Audit:
    """Of log directories, of a cluster that runs or not."""
    given = layout.log_directories(directories)
    found = layout.scan(given, topics)
    audit = Audit(of=", ".join(str(each) for each in directories), notes=found.notes)
    logs = _with_metadata(found, audit.notes)
    by_partition: dict[TopicPartition, list[layout.ReplicaLog]] = defaultdict(list)
    for log in logs:
        by_partition[log.tp].append(log)
    comparisons = {tp: _comparison(tp, held, found) for tp, held in by_partition.items()}
    works = [
        segment for log in logs for segment in log.bounded(_until(comparisons[log.tp], log.replica.node)).segments()
    ]

    def frame(wanted: Iterable[Segment]) -> "DataFrame":
        reader = spark.read.format("tidelog-segments").option(source.PLAN, layout.to_json(wanted))
        return reader.option(source.RECORDS, str(reads_records).lower()).load()

    def closer(wanted: Mapping[TopicPartition, int]) -> "DataFrame":
        return frame(
            each
            for each in works
            if (offset := wanted.get(TopicPartition(each.replica.topic, each.replica.partition))) is not None
            and each.base_offset <= offset
            and (each.next_base is None or offset < each.next_base)
        )

    source.register(spark)
    _audit(audit, comparisons, frame(works), closer, lambda tp: layout.cleaned(by_partition[tp]))
    audit.partitions = with_unread(audit.partitions, _unread(found, by_partition, topics))
    return audit


def audit_cluster(
    spark: "SparkSession",
    bootstrap: str,
    *,
    topics: Sequence[str] = (),
    reads_records: bool = True,
    security: Mapping[str, str] | None = None,
) -> Audit:
    """Over the wire, of a cluster that runs. `security` are a Kafka client's `security.protocol`, `ssl.*`, `sasl.*`."""
    plan = live.plan_live(bootstrap, topics, parse_security(security or {}))
    audit = Audit(of=bootstrap, notes=plan.notes)
    by_partition: dict[TopicPartition, list[live.RemoteReplica]] = defaultdict(list)
    for each in plan.replicas:
        by_partition[TopicPartition(each.topic, each.partition)].append(each)
    comparisons: dict[TopicPartition, Comparison] = {}
    for tp, held in by_partition.items():
        start = max(each.start for each in held)
        if held[0].compacted:
            # Nobody tells over the wire how far a replica has cleaned.
            start = max(start, *(each.end for each in held))
            audit.notes.append(
                f"{tp} is compacted, which each replica does by itself: batches are checked but not compared"
            )
        bounds = [ReplicaBounds(node=each.node, until=each.end) for each in held]
        comparisons[tp] = Comparison(tp=tp, start=start, replicas=bounds)

    def frame(wanted: Sequence[live.RemoteReplica]) -> "DataFrame":
        reader = spark.read.format("tidelog-replicas").options(**kafka_options(bootstrap, security))
        reader = reader.option(source.PLAN, source.remote_json(wanted))
        return reader.option(source.RECORDS, str(reads_records).lower()).load()

    source.register(spark)
    # What was read is all there is to look at: a broker may be gone by now, or have deleted what differs.
    _audit(audit, comparisons, frame(plan.replicas), None, lambda tp: 0)
    audit.partitions = with_unread(audit.partitions, plan.unread)
    return audit


def _unread(
    found: layout.Found, held: Mapping[TopicPartition, Sequence[layout.ReplicaLog]], topics: Sequence[str]
) -> Iterator[Unread]:
    """Replicas that there are by the metadata, and of which these directories tell nothing."""
    for topic in () if found.image is None else found.image.topics_by_name.values():
        for number, partition in topic.partitions.items() if not topics or topic.name in topics else ():
            tp = TopicPartition(topic.name, number)
            for node in partition.replicas:
                if node not in found.nodes:
                    yield Unread(tp=tp, node=node, why="no directory of this node is given")
                elif tp not in held:
                    yield Unread(tp=tp, node=node, why="no directory has a log of the partition")
    for tp, logs in held.items():
        if all(log.high_watermark == 0 for log in logs):
            for log in logs:
                if log.is_untold:
                    why = "no replication-offset-checkpoint has its high watermark: nothing was compared"
                    yield Unread(tp=tp, node=log.replica.node, why=why)


def _with_metadata(found: layout.Found, notes: list[str]) -> list[layout.ReplicaLog]:
    """The logs, told who is in sync and who is compacted, less those of topics that were deleted or made anew."""
    found.image = image = newest_image(found.metadata, notes)
    if image is None:
        notes.append("no metadata log has the ISR: each replica is compared up to its own high watermark")
    logs = [log for log in found.logs if image is None or _is_current(log, image, notes)]
    compacted = {log.tp.topic for log in logs if log.clean_until is not None}
    if image is not None:
        compacted |= {
            name for name in image.topics_by_name if "compact" in image.topic_configs(name).get("cleanup.policy", "")
        }
    return [replace(log, replica=replace(log.replica, compacted=log.tp.topic in compacted)) for log in logs]


def _is_current(log: layout.ReplicaLog, image: ClusterImage, notes: list[str]) -> bool:
    topic, partition = image.topic(log.tp.topic), image.partition(log.tp)
    if topic is None or partition is None or (log.topic_id is not None and log.topic_id != topic.topic_id):
        notes.append(f"{log.directory} belongs to a deleted topic: left out")
        return False
    if log.replica.node not in partition.replicas:
        notes.append(f"{log.directory} is not a replica any more: left out")
        return False
    return True


def _comparison(tp: TopicPartition, held: Sequence[layout.ReplicaLog], found: layout.Found) -> Comparison:
    in_sync = found.in_sync(tp)
    facts = [
        Facts(
            node=log.replica.node,
            log_start=log.log_start,
            high_watermark=log.high_watermark,
            clean_until=log.clean_until,
            in_sync=None if in_sync is None else log.replica.node in in_sync,
        )
        for log in held
    ]
    absent = found.replicas(tp) & found.nodes - {log.replica.node for log in held}
    lost = absent & set(in_sync or ())
    found.notes += [f"node {node} should be a replica of {tp}, but has no log of it" for node in sorted(absent - lost)]
    # Who is in sync has all that is committed: without a log it has lost it.
    return comparison_of(tp, [*facts, *(Facts(node=node, in_sync=True) for node in lost)])


def _until(comparison: Comparison, node: int) -> int:
    return next(each.until for each in comparison.replicas if each.node == node)


def _audit(
    audit: Audit,
    comparisons: Mapping[TopicPartition, Comparison],
    rows: "DataFrame",
    closer: "Callable[[Mapping[TopicPartition, int]], DataFrame] | None",
    cleaned: Callable[[TopicPartition], int],
) -> Audit:
    results = {
        tp: PartitionResult(
            topic=tp.topic,
            partition=tp.partition,
            nodes=[each.node for each in comparison.replicas],
            start=comparison.start,
            end=comparison.end,
        )
        for tp, comparison in sorted(comparisons.items())
    }
    audit.partitions = list(results.values())
    if not results:
        return audit
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        _count(rows, results)
        _take_damage(rows, results, audit)
        moved = _moved(rows, _as_far_as_read(rows, comparisons, results), cleaned, audit)
        for tp, comparison in moved.items():
            results[tp].start, results[tp].end = comparison.start, comparison.end
        _compare(rows, moved, results, closer)
    finally:
        rows.unpersist()
    return audit


def _count(rows: "DataFrame", results: Mapping[TopicPartition, PartitionResult]) -> None:
    counted = (
        rows.where(F.col("kind") == Kind.BATCH.value)
        .groupBy(*_KEY)
        .agg(F.count("*").alias("batches"), F.sum("records").alias("records"), F.sum("size").alias("bytes"))
    )
    for row in counted.collect():
        result = results[TopicPartition(row.topic, row.partition)]
        result.batches, result.records, result.bytes = row.batches, row.records, row.bytes


def _take_damage(rows: "DataFrame", results: Mapping[TopicPartition, PartitionResult], audit: Audit) -> None:
    damaged = rows.where(F.col("kind") == Kind.PROBLEM.value)
    order = ("base_offset", "node", "place")
    first = F.min_by(F.struct(*TYPES), F.struct(*order)).alias("first")
    for row in damaged.groupBy(*_KEY).agg(F.count("*").alias("damaged"), first).collect():
        result = results[TopicPartition(row.topic, row.partition)]
        result.damaged, result.first = row.damaged, damage_of(row.first.asDict())
    audit.damage = [damage_of(row.asDict()) for row in damaged.orderBy(*_KEY, *order).limit(LISTED).collect()]
    tails = rows.where(F.col("kind") == Kind.TAIL.value)
    listed = tails.orderBy(*_KEY, "node").limit(LISTED).collect()
    audit.notes += [
        f"{row.topic}-{row.partition}, node {row.node}, above the high watermark: {row.what} ({row.place})"
        for row in listed
    ]
    if len(listed) == LISTED and (left_out := tails.count() - LISTED):
        audit.notes.append(f"and {left_out} more above the high watermark")


def _as_far_as_read(
    rows: "DataFrame",
    comparisons: Mapping[TopicPartition, Comparison],
    results: Mapping[TopicPartition, PartitionResult],
) -> dict[TopicPartition, Comparison]:
    """Without what brokers were not there to tell any more."""
    found = dict(comparisons)
    for row in rows.where(F.col("kind") == Kind.UNREAD.value).orderBy(*_KEY, "node").collect():
        tp = TopicPartition(row.topic, row.partition)
        bounds = [
            replace(each, until=min(each.until, row.base_offset)) if each.node == row.node else each
            for each in found[tp].replicas
        ]
        found[tp] = replace(found[tp], replicas=bounds)
        why = f"from offset {row.base_offset} on, {row.what}"
        results[tp].unread = (*results[tp].unread, Unread(tp=tp, node=row.node, why=why))
    return found


def _moved(
    rows: "DataFrame",
    comparisons: Mapping[TopicPartition, Comparison],
    cleaned: Callable[[TopicPartition], int],
    audit: Audit,
) -> dict[TopicPartition, Comparison]:
    """With later starts, where retention or the cleaner have been at work meanwhile."""
    starts = {tp: max(each.start, cleaned(tp)) for tp, each in comparisons.items()}
    gone = rows.where(F.col("kind") == Kind.GONE.value).groupBy(*_KEY).agg(F.max("last_offset").alias("last_offset"))
    for row in gone.collect():
        tp = TopicPartition(row.topic, row.partition)
        starts[tp] = max(starts[tp], row.last_offset + 1)
        audit.notes.append(f"{tp}: offsets up to {row.last_offset} were deleted during the audit")
    return {tp: replace(each, start=starts[tp]) for tp, each in comparisons.items()}


def _compare(
    rows: "DataFrame",
    comparisons: Mapping[TopicPartition, Comparison],
    results: Mapping[TopicPartition, PartitionResult],
    closer: "Callable[[Mapping[TopicPartition, int]], DataFrame] | None",
) -> None:
    told = [
        (tp.topic, tp.partition, bound.node, each.start, bound.until, sorted(one.until for one in each.replicas))
        for tp, each in comparisons.items()
        if len(each.replicas) > 1
        for bound in each.replicas
    ]
    if not told:
        return
    columns = "topic string, partition int, node int, start long, until long, untils array<long>"
    bounds = rows.sparkSession.createDataFrame(told, columns)
    compared = (
        rows.where(F.col("kind") == Kind.BATCH.value)
        .join(F.broadcast(bounds), [*_KEY, "node"])
        .where((F.col("base_offset") >= F.col("start")) & (F.col("base_offset") < F.col("until")))
    )
    same = F.lit(True)
    for name in COMPARED:
        same = same & (F.col(f"least_{name}") == F.col(f"most_{name}"))
    differing = (
        compared.groupBy(*_KEY, "base_offset")
        .agg(
            F.count("*").alias("replicas"),
            F.first("untils").alias("untils"),
            *(F.min(name).alias(f"least_{name}") for name in COMPARED),
            *(F.max(name).alias(f"most_{name}") for name in COMPARED),
        )
        .withColumn("wanted", F.size(F.filter("untils", lambda until: until > F.col("base_offset"))))
        .where((F.col("replicas") != F.col("wanted")) | ~same)
        .groupBy(*_KEY)
        .agg(F.count("*").alias("batches"), F.min("base_offset").alias("first"))
    )
    firsts: dict[TopicPartition, int] = {}
    for row in differing.collect():
        tp = TopicPartition(row.topic, row.partition)
        results[tp].differing, firsts[tp] = row.batches, row.first
    if firsts:
        _explain(comparisons, results, firsts, rows if closer is None else closer(firsts))


def _explain(
    comparisons: Mapping[TopicPartition, Comparison],
    results: Mapping[TopicPartition, PartitionResult],
    firsts: Mapping[TopicPartition, int],
    rows: "DataFrame",
) -> None:
    near: dict[TopicPartition, list[AuditRow]] = defaultdict(list)
    holding = F.lit(False)
    for tp, offset in firsts.items():
        own = (F.col("topic") == tp.topic) & (F.col("partition") == tp.partition)
        holding = holding | (own & (F.col("base_offset") <= offset) & (F.col("last_offset") >= offset))
    for row in rows.where((F.col("kind") == Kind.BATCH.value) & holding).collect():
        near[TopicPartition(row.topic, row.partition)].append(AuditRow(**row.asDict()))
    for tp, offset in firsts.items():
        found = explain(comparisons[tp], offset, near[tp])
        results[tp].first = first_of(each for each in (results[tp].first, found) if each is not None)
