"""A1: what an audit says of three brokers when somebody has been at the disks of two, as they run and afterwards."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.jobs.audit import live as audit_live
from tidelog.jobs.audit.compare import Audit, Verdict
from tidelog.jobs.audit.job import audit_cluster, audit_directories
from tidelog.jobs.audit.layout import NoLogs
from tidelog.jobs.audit.report import page_of
from tidelog.testing import Cluster
from tidelog.wire.records.batch import BatchHeader, iter_headers, seal

pytestmark = [pytest.mark.timeout(300)]


def fill(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 50})
    for number in range(count):
        producer.produce(topic, value=b"value-%05d" % number * 5, key=b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def segment(cluster: Cluster, node: int, partition: int) -> Path:
    return cluster.directory / f"node-{node}" / "data" / f"orders-{partition}" / f"{0:020}.log"


def flip_a_bit(path: Path) -> tuple[int, BatchHeader]:
    data = bytearray(path.read_bytes())
    position, header = list(iter_headers(data))[3]
    data[position + header.size_in_bytes - 9] ^= 0x10
    path.write_bytes(data)
    return position, header


def forge_a_record(path: Path) -> tuple[int, BatchHeader]:
    """By somebody who knows what a CRC is."""
    data = bytearray(path.read_bytes())
    position, header = list(iter_headers(data))[1]
    spot = data.index(b"value-", position)
    data[spot : spot + 5] = b"worth"
    seal(data, header, position)
    path.write_bytes(data)
    return position, header


def check(found: Audit, followers: list[int], flipped: BatchHeader, forged: BatchHeader) -> None:
    """Of the first two partitions."""
    damage, difference = (each.first for each in found.partitions[:2])
    assert damage is not None
    assert difference is not None
    assert damage.nodes == [followers[0]]
    assert (damage.first_offset, damage.last_offset) == (flipped.base_offset, flipped.last_offset)
    assert "does not match its CRC" in damage.what
    assert difference.nodes == [followers[1]]
    assert (difference.first_offset, difference.last_offset) == (forged.base_offset, forged.last_offset)
    assert f"node {followers[1]} has another batch than nodes" in difference.what
    assert "CRC 0x" in difference.what
    assert [(each.damaged, each.differing) for each in found.partitions[:2]] == [(1, 0), (0, 1)]
    assert [(each.start, each.end, each.records) for each in found.partitions[:2]] == [(0, 400, 1200)] * 2


def test_a_clean_report_is_of_a_whole_cluster(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the directories do not tell is not taken for fine."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        cluster.create_topic("single", partitions=1, replication_factor=1)
        for topic, partition in (("orders", 0), ("orders", 1), ("single", 0)):
            fill(cluster.bootstrap, topic, partition, 50)
        live = audit_cluster(spark, cluster.bootstrap)
        assert (live.verdict, live.unread) == (Verdict.CLEAN, [])
        owner = cluster.leader("single", 0)
        plan = audit_live.plan_live(cluster.bootstrap, ["orders"])
        cluster.kill(3)
        with monkeypatch.context() as patched:
            # It was there when all was planned.
            patched.setattr(audit_live, "plan_live", lambda *_: plan)
            live = audit_cluster(spark, cluster.bootstrap)
        assert live.verdict is Verdict.INCOMPLETE
        assert [(str(each.tp), each.node) for each in live.unread] == [("orders-0", 3), ("orders-1", 3)]
        assert [(each.start, each.end, each.differing) for each in live.partitions] == [(0, 50, 0)] * 2
        cluster.start(3)
        for partition in (0, 1):
            cluster.wait_isr("orders", partition, {1, 2, 3})
        for node in (1, 2, 3):
            cluster.stop(node)

        def audited(change: Callable[[Path], None], *nodes: int) -> Audit:
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(cluster.directory, copy, ignore=shutil.ignore_patterns("*.sock", "control*"))
            change(copy)
            given = [copy / f"node-{node}" / "data" for node in nodes] or [copy]
            return audit_directories(spark, given)

        def forget_high_watermarks(copy: Path) -> None:
            for found in copy.glob("node-*/data/replication-offset-checkpoint"):
                found.unlink()

        whole = audited(lambda copy: None)
        assert (whole.verdict, whole.unread) == (Verdict.CLEAN, [])
        gone = audited(lambda copy: shutil.rmtree(copy / f"node-{owner}" / "data" / "single-0"))
        assert gone.verdict is Verdict.INCOMPLETE
        assert [(str(each.tp), each.node) for each in gone.unread] == [("single-0", owner)]
        part = audited(lambda copy: None, 1, 2)
        assert part.verdict is Verdict.INCOMPLETE
        assert {each.node for each in part.unread} == {3}
        unknown = audited(forget_high_watermarks)
        assert unknown.verdict is Verdict.INCOMPLETE
        assert {str(each.tp) for each in unknown.unread} >= {"orders-0", "orders-1", "single-0"}


def test_what_differs_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        for partition in range(3):
            fill(cluster.bootstrap, "orders", partition, 400)
        leaders = [cluster.leader("orders", partition) for partition in range(3)]
        followers = [next(node for node in (1, 2, 3) if node != leader) for leader in leaders]
        at_bit, flipped = flip_a_bit(segment(cluster, followers[0], 0))
        at_record, forged = forge_a_record(segment(cluster, followers[1], 1))

        found = audit_cluster(spark, cluster.bootstrap, topics=["orders"])
        check(found, followers, flipped, forged)
        nothing = found.partitions[2]
        assert nothing.first is None
        assert (nothing.start, nothing.end, nothing.records) == (0, 400, 1200)

        cluster.stop(1)
        found = audit_cluster(spark, cluster.bootstrap, topics=["orders"])
        # With the last partition nothing is wrong, as far as anybody can see.
        assert found.partitions[2].verdict is Verdict.INCOMPLETE
        assert set(found.partitions[2].nodes) == {2, 3}
        assert [(str(each.tp), each.node) for each in found.unread] == [(f"orders-{number}", 1) for number in range(3)]

        cluster.stop(2)
        cluster.kill(3)
        # Only the last one was in sync when it went.
        for node in (1, 3):
            shutil.rmtree(segment(cluster, node, 2).parent)
        # The first of a partition is told, however little of the damage is listed.
        monkeypatch.setattr("tidelog.jobs.audit.job.LISTED", 0)
        found = audit_directories(spark, [cluster.directory])
        assert (found.damage, found.damage_left_out) == ([], 1)
        check(found, followers, flipped, forged)
        lost = found.partitions[2].first
        assert lost is not None
        assert (lost.nodes, lost.first_offset) == ([3], 0)
        assert lost.what.startswith("node 3 does not have offsets 0 to") and lost.what.endswith("node 2 does")
        assert "node 1 should be a replica of orders-2, but has no log of it" in found.notes
        firsts = [each.first for each in found.partitions[:2] if each.first is not None]
        assert [(each.place, each.position) for each in firsts] == [
            (str(segment(cluster, followers[0], 0)), at_bit),
            (str(segment(cluster, followers[1], 1)), at_record),
        ]
        html = page_of(found).html()
        assert firsts[1].place in html
        assert "http" not in html.replace("http://www.w3.org/2000/svg", "")

        with pytest.raises(NoLogs, match="no log of topic ordesr"):
            audit_directories(spark, [cluster.directory], topics=["orders", "ordesr"])
