"""Every command that runs on Spark, on a master with workers whose Python has nothing of ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.soak import full_length
from tests.spark.standalone import Standalone, standalone

from tidelog.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

PATIENCE_S = 400.0
RECORDS = 300
KEYS = 7
PIPELINE = """
[pipeline]
checkpoint = "checkpoint"
[sources.orders]
topics = ["orders"]
value = "string"
[sinks.table]
from = "orders"
format = "parquet"
path = "table"
[dead_letters]
path = "dead"
"""


def told(workers: Standalone, *arguments: str) -> Any:
    done = workers.run(*arguments, "--json", timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.skipif(not full_length(), reason="several JVMs for minutes: make soak")
def test_every_command_runs_on_a_master(tmp_path: Path) -> None:
    with (
        Cluster(brokers=1, config={"tidelog.replication.events.enable": "true"}) as brokers,
        standalone(tmp_path) as workers,
    ):
        at = ("--bootstrap", brokers.bootstrap)
        brokers.create_topic("orders", partitions=2)
        producer = Producer({"bootstrap.servers": brokers.bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", key=b"%d" % (number % KEYS), value=b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0

        found = told(workers, "export", "orders", str(tmp_path / "latest"), "--latest", *at)
        assert (found["records"], found["rows"]) == (RECORDS, KEYS)
        found = told(workers, "audit", "--data", str(brokers.directory), "--topic", "orders")
        assert [each["verdict"] for each in found["partitions"]] == ["clean"] * 2
        assert sum(each["records"] for each in found["partitions"]) == RECORDS
        found = told(workers, "audit", "--topic", "orders", *at)
        assert (found["verdict"], sum(each["records"] for each in found["partitions"])) == ("clean", RECORDS)
        assert told(workers, "health", *at)["brokers"] == [1]
        (tmp_path / "orders.toml").write_text(PIPELINE)
        done = workers.run("pipeline", "run", str(tmp_path / "orders.toml"), "--once", *at, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"table: batch 0, {RECORDS} rows" in done.stdout
