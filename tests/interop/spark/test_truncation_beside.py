"""An unclean election takes committed records away while both connectors read, and the log grows past where it was.

By offsets alone nothing has happened. Theirs goes on; ours stops and names what was replaced, or is told to go on.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.clients.waiting import wait_until
from tests.interop.spark.beside import OURS, THEIRS

from tidelog.testing import Cluster

pytestmark = pytest.mark.timeout(600)

TOPIC = "orders"
TOLERANT = "tolerant"
CONFIG = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "-1"}
# The controllers are on 1, 2 and 3: with the followers dead, and the leader after them, there are two to elect with.
BROKERS = 5
LEADER = 1
FOLLOWERS = (4, 5)
SECONDS = 120


def write(cluster: Cluster, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1})
    for number in range(first, end):
        producer.produce(TOPIC, value=b"%d" % number)
    assert producer.flush(60) == 0


class Query:
    """Runs until it is stopped or fails, and keeps its rows."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, kind: str, name: str, **options: str) -> None:
        self._spark, self._table = spark, f"rows_of_{name}"
        frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
        frame = frame.option("startingOffsets", "earliest").options(**options)
        writer = frame.load().writeStream.format("memory").queryName(self._table)
        writer = writer.option("checkpointLocation", str(folder / name)).trigger(processingTime="200 milliseconds")
        self.query: StreamingQuery = writer.start()

    def numbers(self) -> list[int]:
        found: list[Any] = self._spark.table(self._table).collect()
        return sorted(int(row.value) for row in found)

    def wait(self, numbers: list[int]) -> None:
        wait_until(lambda: self.numbers() == numbers, f"{self._table} has {len(numbers)} rows", SECONDS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=BROKERS) as running:
        yield running


def test_only_ours_notices(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    new = NewTopic(TOPIC, 1, replica_assignment=[[LEADER, *FOLLOWERS]], config=CONFIG)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([new])[TOPIC].result(30)
    cluster.wait_isr(TOPIC, 0, {LEADER, *FOLLOWERS})
    write(cluster, 0, 10)
    kinds: list[tuple[str, str, dict[str, str]]] = [
        (OURS, OURS, {}),
        (TOLERANT, OURS, {"failOnDataLoss": "false"}),
        (THEIRS, THEIRS, {}),
    ]
    queries = {name: Query(spark, cluster.bootstrap, tmp_path, kind, name, **options) for name, kind, options in kinds}
    try:
        for each in queries.values():
            each.wait(list(range(10)))
        for follower in FOLLOWERS:
            cluster.kill(follower)
        cluster.wait_isr(TOPIC, 0, {LEADER})
        write(cluster, 10, 20)
        for each in queries.values():
            each.wait(list(range(20)))
        cluster.kill(LEADER)
        cluster.start(FOLLOWERS[0])
        cluster.wait_leader(TOPIC, 0, not_in={LEADER})
        # Offsets 10 to 19 again, and beyond.
        write(cluster, 100, 125)
        # Theirs goes on behind what it had read: ten records are missed, ten are there that no longer exist.
        queries[THEIRS].wait([*range(20), *range(110, 125)])
        assert queries[THEIRS].query.isActive
        with pytest.raises(StreamingQueryException) as caught:
            queries[OURS].query.awaitTermination(SECONDS)
        assert f"{TOPIC}-0: offsets 10 to 19 were read and have been replaced" in str(caught.value)
        assert "they were read up to leader epoch" in str(caught.value) or "in leader epoch" in str(caught.value)
        assert queries[OURS].numbers() == list(range(20))
        queries[TOLERANT].wait([*range(20), *range(100, 125)])
        assert queries[TOLERANT].query.isActive
    finally:
        for each in queries.values():
            each.query.stop()
