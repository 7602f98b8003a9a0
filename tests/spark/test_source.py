"""`format("tidelog")` on a real Spark, against real brokers."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from tidelog.client.client import Client
from tidelog.client.topics import create_topic
from tidelog.spark import register
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def write(bootstrap: str, topic: str, values: list[bytes | None], partition: int = 0, **options: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **options})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value=value,
            key=None if number % 3 == 0 else b"key-%d" % number,
            partition=partition,
            timestamp=1_700_000_000_000 + number,
            headers=[("trace", b"%d" % number), ("empty", None)] if number % 2 else None,
        )
    assert producer.flush(60) == 0


def table(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def values(rows: list[Row]) -> list[bytes | None]:
    return [None if row.value is None else bytes(row.value) for row in sorted(rows, key=lambda row: row.offset)]


def numbered(first: int, end: int) -> list[bytes | None]:
    return [b"value-%d" % number for number in range(first, end)]


def test_every_column_of_every_codec(spark: SparkSession, cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(len(CODECS))
    sent = [*numbered(0, 200), None, b""]
    for partition, codec in enumerate(CODECS):
        write(cluster.bootstrap, name, sent, partition, **{"compression.type": codec})
    frame = table(spark, cluster.bootstrap, name, includeHeaders="true", includeEpoch="true")
    rows = frame.collect()
    assert len(rows) == len(CODECS) * len(sent)
    for partition in range(len(CODECS)):
        own = [row for row in rows if row.partition == partition]
        assert values(own) == sent
        assert [row.offset for row in own] == list(range(len(sent)))
        assert [row.key for row in own][:4] == [None, b"key-1", b"key-2", None]
        assert {(row.topic, row.timestampType, row.leaderEpoch) for row in own} == {(name, 0, 0)}
        assert [round(row.timestamp.timestamp() * 1000) for row in own][:2] == [1_700_000_000_000, 1_700_000_000_001]
        assert own[0].headers is None
        assert own[1].headers == [Row(key="trace", value=b"1"), Row(key="empty", value=None)]


def test_a_batch_reads_the_range_it_is_told(spark: SparkSession, cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(2)
    for partition in (0, 1):
        write(cluster.bootstrap, name, numbered(0, 100), partition)
    limits = {
        "startingOffsets": json.dumps({name: {"0": 90, "1": -2}}),
        "endingOffsets": json.dumps({name: {"0": -1, "1": 5}}),
    }
    rows = table(spark, cluster.bootstrap, name, **limits).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [
        *((0, offset) for offset in range(90, 100)),
        *((1, offset) for offset in range(5)),
    ]
    by_time = table(
        spark, cluster.bootstrap, name, startingTimestamp="1700000000098", endingTimestamp="1700000000099"
    ).collect()
    assert sorted((row.partition, row.offset) for row in by_time) == [(0, 98), (1, 98)]
    cut = table(spark, cluster.bootstrap, name, minPartitions="8")
    assert cut.rdd.getNumPartitions() == 8
    assert cut.count() == 200


def test_filters_narrow_what_is_fetched(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], request: pytest.FixtureRequest
) -> None:
    """S7, where somebody asks for it."""
    name = topic(3)
    for partition in range(3):
        write(cluster.bootstrap, name, numbered(0, 50), partition)
    register(spark, push_filters=True)
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.python.filterPushdown.enabled"))
    frame = table(spark, cluster.bootstrap, name, pushFilters="true")
    narrowed = frame.where("partition in (0, 2) and offset > 40 and offset <= 45")
    assert sorted((row.partition, row.offset) for row in narrowed.collect()) == [
        (partition, offset) for partition in (0, 2) for offset in range(41, 46)
    ]
    assert narrowed.rdd.getNumPartitions() == 2
    late = frame.where("timestamp >= timestamp '2023-11-14 22:13:20.048 UTC'")
    assert sorted((row.partition, row.offset) for row in late.collect()) == [
        (partition, offset) for partition in range(3) for offset in (48, 49)
    ]
    assert frame.where(f"topic = '{name}' and offset = 7 and partition = 1").count() == 1
    assert frame.where("offset >= 50").count() == 0


def test_a_filter_is_for_its_own_query_only(spark: SparkSession, cluster: Cluster, topic: Callable[..., str]) -> None:
    """Spark keeps one plan for a frame, which the last filter would have narrowed for all."""
    name = topic(2)
    for partition in (0, 1):
        write(cluster.bootstrap, name, numbered(0, 50), partition)
    frame = table(spark, cluster.bootstrap, name)
    assert frame.where("partition = 0 and offset < 10").count() == 10
    assert frame.count() == 100
    both = frame.where("partition = 0").union(frame.where("partition = 1"))
    assert sorted((row.partition, row["count"]) for row in both.groupBy("partition").count().collect()) == [
        (0, 50),
        (1, 50),
    ]


class Stream:
    """A query that takes what is there and ends, as often as it is run, with one checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path, **options: str) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        self.options |= options
        self.progress: list[Any] = []

    def run(self, **options: str) -> None:
        frame = self.spark.readStream.format("tidelog").options(**(self.options | options)).load()
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "table"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        self.progress = query.recentProgress

    def rows(self) -> list[Row]:
        return self.spark.read.parquet(str(self.folder / "table")).collect()


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    for partition in (0, 1):
        write(cluster.bootstrap, name, numbered(0, 100), partition)
    stream = Stream(spark, cluster.bootstrap, name, tmp_path, maxOffsetsPerTrigger="80")
    stream.run()
    assert [batch.numInputRows for batch in stream.progress if batch.numInputRows] == [80, 80, 40]
    at = json.loads(stream.progress[-1].sources[0].endOffset)[name]
    assert at["0"] == {"offset": 100, "epoch": 0}
    assert len(at["id"]) == 22
    write(cluster.bootstrap, name, numbered(100, 130))
    stream.run()
    rows = stream.rows()
    assert values([row for row in rows if row.partition == 0]) == numbered(0, 130)
    assert values([row for row in rows if row.partition == 1]) == numbered(0, 100)


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    write(cluster.bootstrap, name, numbered(0, 10))
    stream = Stream(spark, cluster.bootstrap, name, tmp_path)
    stream.run()
    delete(cluster, name)
    cluster.create_topic(name, partitions=1, config={"retention.ms": "-1"})
    write(cluster.bootstrap, name, numbered(50, 65))
    with pytest.raises(StreamingQueryException) as caught:
        stream.run()
    assert f"{name}-0: offsets 0 to 9 were read and have been replaced" in str(caught.value)
    stream.run(failOnDataLoss="false")
    assert sorted(values(stream.rows())) == sorted(numbered(0, 10) + numbered(50, 65))  # type: ignore[type-var]


def test_a_batch_is_run_again_though_its_topic_was_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Its offsets are written before it is read. A driver that was killed in between leaves just that."""
    with Cluster(brokers=1) as cluster:
        config = {"retention.ms": "-1"}
        cluster.create_topic("orders", config=config)
        write(cluster.bootstrap, "orders", numbered(0, 10))
        # The epochs of the new topic begin again, below that of the old one.
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_leader("orders", 0)
        stream = Stream(spark, cluster.bootstrap, "orders", tmp_path)
        stream.run()
        write(cluster.bootstrap, "orders", numbered(10, 20))
        stream.run()
        for left in ("commits/1", "commits/.1.crc"):
            (tmp_path / "checkpoint" / left).unlink()
        for left in ("_spark_metadata/1", "_spark_metadata/.1.crc"):
            (tmp_path / "table" / left).unlink()
        delete(cluster, "orders")
        cluster.create_topic("orders", config=config)
        write(cluster.bootstrap, "orders", numbered(100, 125))
        with pytest.raises(StreamingQueryException) as caught:
            stream.run()
        assert "orders-0: offsets 10 to 19, up to leader epoch" in str(caught.value)
        assert "cannot be read any more: the topic had the id" in str(caught.value)
        stream.run(failOnDataLoss="false")
        stream.run()
        assert sorted(values(stream.rows())) == sorted(numbered(0, 10) + numbered(100, 125))  # type: ignore[type-var]


def delete(cluster: Cluster, name: str) -> None:
    command = [sys.executable, "-m", "tidelog", "topics", "delete", name, "--bootstrap", cluster.bootstrap]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_records_that_an_unclean_election_lost_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """The log regrows past the old end: by its offsets alone a reader would go on and never know."""
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "-1"}
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=2, config=config)
        first = cluster.leader("orders", 0)
        [second] = [each.broker for each in cluster.replicas("orders", 0) if each.broker != first]
        cluster.wait_isr("orders", 0, {first, second})
        write(cluster.bootstrap, "orders", numbered(0, 10), acks="all")
        cluster.kill(second)
        cluster.wait_isr("orders", 0, {first})
        write(cluster.bootstrap, "orders", numbered(10, 20), acks="all")
        stream = Stream(spark, cluster.bootstrap, "orders", tmp_path)
        stream.run()
        assert values(stream.rows()) == numbered(0, 20)
        cluster.kill(first)
        cluster.start(second)
        cluster.wait_leader("orders", 0, not_in={first})
        write(cluster.bootstrap, "orders", numbered(100, 125), acks="all")
        with pytest.raises(StreamingQueryException) as caught:
            stream.run()
        assert "orders-0: offsets 10 to 19 were read and have been replaced" in str(caught.value)
        assert "leader epoch" in str(caught.value)
        assert values(stream.rows()) == numbered(0, 20)
        stream.run(failOnDataLoss="false")
        rows = stream.rows()
        assert len(rows) == 45
        assert {bytes(row.value) for row in rows} == {*numbered(0, 20), *numbered(100, 125)}


def test_a_broker_that_is_cut_off_makes_no_partition_gone(spark: SparkSession, tmp_path: Path) -> None:
    """It has not heard of the topic, and the driver that is started again reaches it first. Had the partition been
    given up, it would be new when the broker is back, and every row be read twice.
    """
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("warm", replication_factor=3)
        cluster.isolate(3)
        cluster.wait_isr("warm", 0, {1, 2})
        first, second, cut_off = cluster.bootstrap.split(",")
        asyncio.run(made(f"{first},{second}", "orders"))
        write(f"{first},{second}", "orders", numbered(0, 20))
        stream = Stream(spark, f"{first},{second}", "orders", tmp_path)
        stream.run()
        stream.options["kafka.bootstrap.servers"] = f"{cut_off},{first},{second}"
        stream.run()
        stream.run(failOnDataLoss="false")
        cluster.heal()
        cluster.wait_isr("warm", 0, {1, 2, 3})
        write(cluster.bootstrap, "orders", numbered(20, 25))
        stream.run()
        assert values(stream.rows()) == numbered(0, 25)


async def made(bootstrap: str, name: str) -> None:
    async with Client(bootstrap) as client:
        config = {"retention.ms": "-1"}
        await client.retrying(lambda: create_topic(client, name, replication_factor=2, config=config))


def test_what_an_executor_loads_is_only_what_it_needs() -> None:
    program = (
        "import sys, tidelog.spark, tidelog.spark.source\n"
        "unwanted = {'uvloop', 'starlette', 'uvicorn', 'typer', 'rich', 'prometheus_client', 'tidelog.broker'}\n"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_schema_of_the_users_is_refused_before_a_task_runs(
    spark: SparkSession, cluster: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """S15, in a batch and in a stream."""
    name = topic()
    write(cluster.bootstrap, name, numbered(0, 5))
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": name}
    wrong = "id INT, name STRING"
    with pytest.raises(AnalysisException, match=r"there is no column id.*The columns are: key binary, value binary"):
        spark.read.format("tidelog").options(**given).schema(wrong).load().count()
    streaming = spark.readStream.format("tidelog").options(**given).schema(wrong)
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"there is no column id"):
        streaming.load().writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path)
        ).start().awaitTermination()
    right = table(spark, cluster.bootstrap, name).schema
    assert spark.read.format("tidelog").options(**given).schema(right).load().count() == 5
