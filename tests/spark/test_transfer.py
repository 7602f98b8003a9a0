"""What queries cost the brokers: bytes for a range (S8), and connections for a micro-batch (S9), counted in between."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.clients.cutting_proxy import CuttingProxy
from tests.spark.test_source import table, write

from tidelog.spark.fetch_size import FIRST_BYTES
from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

RECORDS = 10_000
VALUE = b"x" * 500
# Of a record in a batch: its key, headers and lengths besides.
RECORD_BYTES = 540
BATCH_BYTES = 16 * 1024
# Metadata, offsets and versions, of the driver and of the tasks.
OTHER_BYTES = 16 * 1024
# Spark gives tasks to its idle Python workers in turns, and earlier tests leave some. Each opens a connection once.
WARM_BATCHES = 8
BATCHES = 6


@pytest.fixture(scope="module")
def between(cluster: Cluster) -> Iterator[CuttingProxy]:
    with CuttingProxy(cluster.bootstrap, 0) as proxy:
        proxy.stop_cutting()
        yield proxy


@pytest.mark.parametrize("offsets", [1, 100, 2000])
def test_a_small_range_sends_little_more_than_itself(
    spark: SparkSession, between: CuttingProxy, filled: str, offsets: int
) -> None:
    limits = {
        "startingOffsets": json.dumps({filled: {"0": 5000}}),
        "endingOffsets": json.dumps({filled: {"0": 5000 + offsets}}),
    }
    frame = table(spark, between.bootstrap, filled, **limits)
    before = between.answered_bytes
    assert len(frame.collect()) == offsets
    assert between.answered_bytes - before < 1.1 * offsets * RECORD_BYTES + FIRST_BYTES + BATCH_BYTES + OTHER_BYTES


def test_a_whole_topic_is_sent_once(spark: SparkSession, between: CuttingProxy, filled: str) -> None:
    frame = table(spark, between.bootstrap, filled)
    before = between.answered_bytes
    assert len(frame.collect()) == RECORDS
    assert between.answered_bytes - before < 1.1 * RECORDS * RECORD_BYTES + FIRST_BYTES + OTHER_BYTES


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> str:
    cluster.create_topic("transferred", config={"retention.ms": "-1"})
    write(cluster.bootstrap, "transferred", [VALUE] * RECORDS, **{"batch.size": BATCH_BYTES, "linger.ms": 100})
    return "transferred"


def test_micro_batches_share_connections(
    spark: SparkSession, cluster: Cluster, between: CuttingProxy, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    options = {"kafka.bootstrap.servers": between.bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    # No other query of these tests has this name, so nothing is kept from before.
    options["kafka.client.id"] = name
    frame = spark.readStream.format("tidelog").options(**options).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        for number in range(WARM_BATCHES + BATCHES):
            if number == WARM_BATCHES:
                before = between.connections
            write(cluster.bootstrap, name, [b"%d" % number])
            query.processAllAvailable()
        assert sum(batch.numInputRows for batch in query.recentProgress) == WARM_BATCHES + BATCHES
    finally:
        query.stop()
    # It was one for each batch.
    assert between.connections - before <= 1
