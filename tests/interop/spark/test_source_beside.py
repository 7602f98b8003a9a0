"""`format("tidelog")` beside `format("kafka")`: the same broker, the same options, the same rows."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interop.spark.beside import OURS, THEIRS, Beside, Streams
from tests.interop.spark.topics import BEGIN_MS, CODECS, RECORDS, Topics

pytestmark = pytest.mark.timeout(300)

PARTITIONS = range(len(CODECS))


@pytest.fixture(scope="session")
def beside(spark: SparkSession, topics: Topics) -> Beside:
    return Beside(spark, topics)


def each(topic: str, *values: int) -> str:
    return json.dumps({topic: {str(number): value for number, value in enumerate(values)}})


@pytest.mark.quick
@pytest.mark.parametrize("headers", ["true", "false"])
def test_every_column_of_every_codec(beside: Beside, headers: str) -> None:
    found = beside.same_rows(subscribe=beside.topics.mixed, includeHeaders=headers)
    assert len(found) == len(CODECS) * RECORDS


def test_times_that_the_broker_gave(beside: Beside) -> None:
    found = beside.same_rows(subscribe=beside.topics.appended, includeHeaders="true")
    assert {row[6] for row in found} == {1}
    assert len(found) == RECORDS


def test_holes_are_no_rows(beside: Beside) -> None:
    topics = beside.topics
    found = beside.same_rows(subscribe=topics.compacted)
    assert 23 <= len(found) < found[-1][4]
    middle = {"startingOffsets": each(topics.compacted, 50), "endingOffsets": each(topics.compacted, 190)}
    assert len(beside.same_rows(subscribe=topics.compacted, **middle)) < 140
    found = beside.same_rows(subscribe=topics.deleted)
    assert [row[4] for row in found] == list(range(50, RECORDS))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted", None])
def test_transactions(beside: Beside, level: str | None) -> None:
    if not beside.topics.has_transactions:
        # The same story as if there were none; Tidelog has none yet.
        found = beside.same_rows(
            subscribe=beside.topics.deleted, **{"kafka.isolation.level": level or "read_committed"}
        )
        assert len(found) == RECORDS - 50
        return
    options = {} if level is None else {"kafka.isolation.level": level}
    found = beside.same_rows(subscribe=beside.topics.transacted, includeHeaders="true", **options)
    assert len(found) == 10 + 6 * 5 + (3 if level == "read_committed" else 6) * 15


def test_what_is_read_may_be_said_in_three_ways(beside: Beside) -> None:
    mixed, deleted = beside.topics.mixed, beside.topics.deleted
    assert len(beside.same_rows(subscribe=f"{mixed}, {deleted}")) == len(CODECS) * RECORDS + RECORDS - 50
    assert len(beside.same_rows(assign=json.dumps({mixed: [0, 3], deleted: [0]}))) == 2 * RECORDS + RECORDS - 50
    assert len(beside.same_rows(subscribePattern=f"^({mixed}|{deleted})$")) == len(CODECS) * RECORDS + RECORDS - 50
    # A part of a name is enough.
    assert len(beside.same_rows(subscribePattern=f"elete.{deleted.removeprefix('deleted')}$")) == RECORDS - 50
    assert beside.same_rows(subscribePattern="^nowhere") == []


def test_where_a_batch_begins_and_ends(beside: Beside) -> None:
    mixed = beside.topics.mixed
    words = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    assert len(beside.same_rows(subscribe=mixed, **words)) == len(CODECS) * RECORDS
    numbers = {"startingOffsets": each(mixed, 0, 10, 20, 119, -2), "endingOffsets": each(mixed, 120, 11, 20, -1, 7)}
    assert len(beside.same_rows(subscribe=mixed, **numbers)) == 120 + 1 + 0 + 1 + 7
    # Names of options in any case.
    loud = {name.upper(): value for name, value in numbers.items()}
    assert len(beside.same_rows(SUBSCRIBE=mixed, **loud)) == 129


def test_where_a_batch_begins_and_ends_by_time(beside: Beside) -> None:
    mixed = beside.topics.mixed
    span = {"startingTimestamp": str(BEGIN_MS + 30), "endingTimestamp": str(BEGIN_MS + 60)}
    assert len(beside.same_rows(subscribe=mixed, **span)) == len(CODECS) * 30
    # A time goes before offsets.
    both = span | {"startingOffsets": each(mixed, *(0 for _ in PARTITIONS)), "endingOffsets": "latest"}
    assert len(beside.same_rows(subscribe=mixed, **both)) == len(CODECS) * 30
    times = {
        "startingOffsetsByTimestamp": each(mixed, *(BEGIN_MS + 10 * number for number in PARTITIONS)),
        "endingOffsetsByTimestamp": each(mixed, *(BEGIN_MS + 10 * number + 20 for number in PARTITIONS)),
    }
    assert len(beside.same_rows(subscribe=mixed, **times)) > 0
    assert len(beside.same_rows(subscribe=mixed, **times, startingTimestamp=str(BEGIN_MS))) > 0
    # Later than every record: an end is the end; a beginning is refused, or is the end as well.
    late = str(BEGIN_MS + 10 * RECORDS)
    assert len(beside.same_rows(subscribe=mixed, endingTimestamp=late)) == len(CODECS) * RECORDS
    after = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert beside.same_rows(subscribe=mixed, **after) == []


def test_tasks_are_cut_in_the_same_places(beside: Beside) -> None:
    mixed = beside.topics.mixed
    uneven = {"startingOffsets": each(mixed, 0, 10, 20, 119, 60), "subscribe": mixed}
    assert beside.same_tasks(**uneven) == len(CODECS)
    for least in (2, 6, 7, 13, 40):
        assert beside.same_tasks(**uneven, minPartitions=str(least)) >= len(CODECS)
    # Theirs takes an end that is not given as an offset for a range of no size, and does not cut it.
    uneven["endingOffsets"] = each(mixed, *(RECORDS for _ in PARTITIONS))
    for most in (1000, 50, 7):
        assert beside.same_tasks(**uneven, maxRecordsPerPartition=str(most)) >= len(CODECS)
    beside.same_tasks(**uneven, maxRecordsPerPartition="50", minPartitions="20")


def test_records_that_are_gone(beside: Beside) -> None:
    """They begin at 50."""
    deleted = beside.topics.deleted
    options = {"subscribe": deleted, "startingOffsets": each(deleted, 20), "endingOffsets": each(deleted, 80)}
    assert len(beside.same_rows(**options, failOnDataLoss="false")) == 30
    ours, theirs = beside.refusals(options)
    assert ours and theirs
    assert f"{deleted}-0: offsets 20 to 49 are lost" in ours


@pytest.mark.parametrize("limit", ["1", "7", "100", "250", "10000"])
def test_a_trigger_takes_the_same_share(beside: Beside, tmp_path: Path, limit: str) -> None:
    mixed = beside.topics.mixed
    # Enough for a few batches, whatever the limit.
    starts = {"1": (118, 119, 120, 117, 120), "7": (118, 110, 90, 119, 120)}.get(limit, (0, 60, 119, 100, 30))
    streams = Streams(beside, tmp_path, subscribe=mixed, startingOffsets=each(mixed, *starts))
    batches = streams.run(maxOffsetsPerTrigger=limit)
    assert batches[OURS] == batches[THEIRS]
    assert streams.rows(OURS) == streams.rows(THEIRS)
    assert len(streams.rows(OURS)) == sum(RECORDS - start for start in starts)


def test_a_trigger_that_waits_for_more(beside: Beside, tmp_path: Path) -> None:
    """Where no more can come, theirs leaves what is too little for a batch unread, and ours does not."""
    mixed = beside.topics.mixed
    streams = Streams(beside, tmp_path, subscribe=mixed)
    batches = streams.run(minOffsetsPerTrigger="200", maxOffsetsPerTrigger="260")
    assert batches == {OURS: [260, 260, 80], THEIRS: [260, 260]}
    assert set(streams.rows(THEIRS)) < set(streams.rows(OURS))
    rest = streams.run(minOffsetsPerTrigger="50")
    assert rest == {OURS: [], THEIRS: [80]}
    assert streams.rows(OURS) == streams.rows(THEIRS)


def test_streams_go_on_and_find_new_partitions(beside: Beside, tmp_path: Path) -> None:
    topics = beside.topics
    name = topics.new("growing", 2)
    for partition in (0, 1):
        topics.write(name, 0, 30, partition)
    streams = Streams(beside, tmp_path, subscribe=name, includeHeaders="true", maxOffsetsPerTrigger="25")
    first = streams.run()
    assert first[OURS] == first[THEIRS]
    topics.grow(name, 3)
    topics.write(name, 30, 40, 0)
    topics.write(name, 0, 20, 2)
    second = streams.run()
    assert second[OURS] == second[THEIRS]
    assert sum(second[OURS]) == 30
    assert streams.rows(OURS) == streams.rows(THEIRS)
    assert streams.run() == {OURS: [], THEIRS: []}


def test_streams_that_begin_by_time_or_at_the_end(beside: Beside, tmp_path: Path) -> None:
    topics = beside.topics
    name = topics.new("timed", 2)
    for partition in (0, 1):
        topics.write(name, 0, 40, partition)
    by_time = Streams(beside, tmp_path / "time", subscribe=name, startingTimestamp=str(BEGIN_MS + 15))
    found = by_time.run()
    assert found[OURS] == found[THEIRS] == [50]
    assert by_time.rows(OURS) == by_time.rows(THEIRS)
    at_end = Streams(beside, tmp_path / "end", assign=json.dumps({name: [1]}), startingOffsets="latest")
    assert at_end.run() == {OURS: [], THEIRS: []}


def test_a_stream_of_theirs_is_gone_on_with(beside: Beside, tmp_path: Path) -> None:
    """The offsets in the form of Spark's Kafka source."""
    topics = beside.topics
    name = topics.new("moved", 2)
    for partition in (0, 1):
        topics.write(name, 0, 30, partition)
    frame = beside.spark.readStream.format(THEIRS).option("kafka.bootstrap.servers", topics.bootstrap)
    frame = frame.option("subscribe", name).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "20")
    query = frame.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "theirs"))
    ended = query.trigger(availableNow=True).start()
    ended.awaitTermination()
    reached = ended.recentProgress[0].sources[0].endOffset
    rest = Streams(beside, tmp_path, subscribe=name, startingOffsets=reached)
    assert rest.run() == {OURS: [40], THEIRS: [40]}
    assert rest.rows(OURS) == rest.rows(THEIRS)
