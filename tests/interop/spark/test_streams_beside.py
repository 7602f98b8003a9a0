"""Streams of both connectors while records go, and options that say how and not what is read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.clients.waiting import wait_until
from tests.interop.spark.beside import OURS, PATIENCE, THEIRS, Beside, Streams
from tests.interop.spark.topics import RECORDS, Topics

pytestmark = pytest.mark.timeout(300)

# How often, how long and under which name brokers are asked: no row may depend on it.
MANNERS = [
    {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "5"},
    {"groupIdPrefix": "beside"},
    {"kafka.group.id": "beside", "groupIdPrefix": "passed over"},
    {"kafka.client.id": "beside", "kafka.receive.buffer.bytes": "32768", "kafka.max.partition.fetch.bytes": "700"},
    {"kafka.request.timeout.ms": "20000", "kafka.metadata.max.age.ms": "1000"},
]


@pytest.fixture(scope="session")
def beside(spark: SparkSession, topics: Topics) -> Beside:
    return Beside(spark, topics)


def failures(run: Callable[[str], object]) -> dict[str, str]:
    """What each connector ended with."""
    said = {}
    for kind in (OURS, THEIRS):
        with pytest.raises(StreamingQueryException) as caught:
            run(kind)
        said[kind] = str(caught.value)
    return said


@pytest.mark.parametrize("options", MANNERS, ids=lambda options: next(iter(options)))
def test_how_brokers_are_asked_changes_no_row(beside: Beside, tmp_path: Path, options: dict[str, str]) -> None:
    assert len(beside.same_rows(subscribe=beside.topics.deleted, **options)) == RECORDS - 50
    streams = Streams(beside, tmp_path, subscribe=beside.topics.deleted, maxOffsetsPerTrigger="30", **options)
    assert streams.run() == {OURS: [30, 30, 10], THEIRS: [30, 30, 10]}
    assert streams.rows(OURS) == streams.rows(THEIRS)


def test_records_that_go_between_two_runs(beside: Beside, tmp_path: Path) -> None:
    """Both had read up to 30 when everything below 50 went."""
    topics = beside.topics
    name = topics.new("going")
    topics.write(name, 0, 30)
    streams = Streams(beside, tmp_path, subscribe=name)
    assert streams.run() == {OURS: [30], THEIRS: [30]}
    topics.write(name, 30, 60)
    topics.delete_before(name, 50)
    said = failures(streams.run_one)
    assert f"{name}-0: offsets 30 to 49 are lost" in said[OURS]
    # What failed was planned before: with the same checkpoint, and without failing, both take what there is.
    assert streams.run(failOnDataLoss="false") == {OURS: [10], THEIRS: [10]}
    assert streams.rows(OURS) == streams.rows(THEIRS)
    assert [row[4] for row in streams.rows(OURS)] == [*range(30), *range(50, 60)]


def test_a_topic_that_is_gone_between_two_runs(beside: Beside, tmp_path: Path) -> None:
    topics = beside.topics
    kept, gone = topics.new("kept"), topics.new("gone")
    for name in (kept, gone):
        topics.write(name, 0, 20)
    pattern = f"^({kept}|{gone})$"
    streams = Streams(beside, tmp_path, subscribePattern=pattern)
    assert streams.run() == {OURS: [40], THEIRS: [40]}
    topics.remove(gone)
    topics.write(kept, 20, 25)
    said = failures(streams.run_one)
    assert f"{gone}-0 no longer exists" in said[OURS]
    assert streams.run(failOnDataLoss="false") == {OURS: [5], THEIRS: [5]}
    assert streams.rows(OURS) == streams.rows(THEIRS)


def test_too_little_for_a_trigger_is_read_when_it_has_waited_long_enough(beside: Beside, tmp_path: Path) -> None:
    """Without the delay neither would read it within the time that this test has."""
    topics = beside.topics
    name = topics.new("waited")
    options = {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "2s", "startingOffsets": "earliest", **PATIENCE}
    read = {}
    for kind in (OURS, THEIRS):
        frame = beside.spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.bootstrap)
        writer = frame.option("subscribe", name).options(**options).load().writeStream.format("memory")
        writer = writer.queryName(f"waited_{kind}").option("checkpointLocation", str(tmp_path / kind))
        read[kind] = writer.trigger(processingTime="100 milliseconds").start()
    try:
        for first in (0, 7):
            topics.write(name, first, first + 7)
            for kind, query in read.items():
                table = beside.spark.table(f"waited_{kind}")
                wait_until(lambda table=table, end=first + 7: table.count() == end, f"{kind} reads it", 120)  # type: ignore[misc]
                assert query.isActive
    finally:
        for query in read.values():
            query.stop()
