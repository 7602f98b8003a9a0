"""Reports fold internal topics into one row, but never damage in them."""

from tidelog.core.ids import TopicPartition
from tidelog.jobs.audit.compare import Audit, Difference, PartitionResult, Unread
from tidelog.jobs.audit.report import page_of, rows_of, summary
from tidelog.jobs.health.model import Health, InternalHealth, PartitionHealth
from tidelog.jobs.health.report import rows_of as health_rows_of

INTERNAL = "__consumer_offsets"


def result(topic: str, partition: int, **more: object) -> PartitionResult:
    values = {"nodes": [1, 2], "start": 0, "end": 8, "batches": 3, "records": 5, "bytes": 70} | more
    return PartitionResult(topic=topic, partition=partition, **values)  # type: ignore[arg-type]


def test_an_audit_folds_clean_internal_partitions_only() -> None:
    difference = Difference(
        topic=INTERNAL,
        partition=1,
        first_offset=2,
        last_offset=2,
        nodes=[1],
        place="node 1",
        position=-1,
        what="CRC",
    )
    unread = Unread(tp=TopicPartition(INTERNAL, 2), node=3, why="cannot connect")
    audit = Audit(
        of="data",
        partitions=[
            result(INTERNAL, 0),
            result(INTERNAL, 1, first=difference, damaged=1),
            result(INTERNAL, 2, unread=[unread]),
            result(INTERNAL, 3, nodes=[2, 3]),
            result("orders", 0),
        ],
    )
    before = summary(audit)
    audit.fold_internal()
    assert [(each.topic, each.partition) for each in audit.partitions] == [(INTERNAL, 1), (INTERNAL, 2), ("orders", 0)]
    assert summary(audit) == before and "1 of 5 partitions" in before
    assert rows_of(audit)[-1] == ["internal topics (2 partitions)", "1, 2, 3", None, None, 6, 10, 140, "same or intact"]
    assert audit.as_dict()["internal_partitions_not_listed"] == 2
    assert "5 partitions, 15 batches" in page_of(audit).html()


def test_health_sums_internal_partitions_and_keeps_their_largest_lag() -> None:
    found = Health(
        window_s=60,
        partitions=[
            PartitionHealth(topic="orders", partition=0, shrinks=1),
            PartitionHealth(topic=INTERNAL, partition=0, shrinks=2, under_replicated_s=1.5, lag_p99=7, records_lost=1),
            PartitionHealth(topic=INTERNAL, partition=1, shrinks=3, under_replicated_s=2.0, lag_p99=5),
        ],
    )
    found.fold_internal()
    assert found.internal == InternalHealth(partitions=2, shrinks=5, under_replicated_s=3.5, lag_p99=7, records_lost=1)
    assert [each.topic for each in found.partitions] == ["orders"]
    assert [row[0] for row in health_rows_of(found)] == ["orders-0", "internal topics (2 partitions)"]
    # On a page that shows few partitions, the row of internal topics stays.
    assert [row[0] for row in health_rows_of(found, 0)] == ["internal topics (2 partitions)"]


def test_without_internal_topics_nothing_is_folded() -> None:
    found = Health(window_s=60, partitions=[PartitionHealth(topic="orders", partition=0)])
    found.fold_internal()
    assert found.internal is None
    audit = Audit(of="data", partitions=[result("orders", 0)])
    audit.fold_internal()
    assert len(rows_of(audit)) == 1
