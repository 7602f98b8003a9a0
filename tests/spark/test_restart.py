"""L3: a pipeline on a Spark of several processes, with brokers, executors and drivers killed under it.

Everything that was acknowledged is in the table once, and nothing else is.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.clients.waiting import now, wait_until
from tests.soak import full_length
from tests.spark.standalone import Driver, Standalone, standalone

from tidelog.jobs.pipeline.state import NoState, StateFolder
from tidelog.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

SECONDS = 60.0
PARTITIONS = 3
BAD_EVERY = 500
PATIENCE_S = 400.0
PIPELINE = """
[pipeline]
checkpoint = "checkpoint"
trigger = "1 second"
[pipeline.spark]
"spark.executor.memory" = "512m"
"spark.executor.cores" = 1
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.sql.shuffle.partitions" = 2
[sources.numbers]
topics = ["numbers"]
value = { format = "json", schema = "n BIGINT NOT NULL, producer INT NOT NULL" }
[steps.placed]
function = "placing:placed"
inputs = ["numbers"]
[sinks.table]
from = "placed"
format = "parquet"
path = "table"
[dead_letters]
path = "dead"
"""
# What runs on an executor can tell where it has this package from.
STEP = """
from pyspark.sql import functions as f

def home(n):
    import tidelog
    return tidelog.__file__

def placed(numbers):
    return numbers.select("n", "producer", "_partition", "_offset", f.udf(home, "string")("n").alias("home"))
"""


class Numbers:
    """Writes numbers until it is told to stop, and knows which were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 100_000,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="numbers")
        self.good: list[int] = []
        self.bad: list[int] = []
        self.failed: list[str] = []

    def __enter__(self) -> "Numbers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(20):
                self._send(number)
                number += 1
            self._producer.poll(0)
            self._stop.wait(0.02)
        assert self._producer.flush(120) == 0

    def _send(self, number: int) -> None:
        is_bad = number % BAD_EVERY == 7
        value = b"bad %d" % number if is_bad else json.dumps({"n": number, "producer": 1}).encode()

        def acknowledged(error: Any, _: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                (self.bad if is_bad else self.good).append(number)

        self._producer.produce("numbers", value=value, partition=number % PARTITIONS, on_delivery=acknowledged)


class Watched:
    """What `status` tells, and a wait for batches that began after now."""

    def __init__(self, folder: Path) -> None:
        self._state = StateFolder(folder)

    def batches(self, pid: int) -> int:
        try:
            found = self._state.read()
        except NoState:
            return 0
        return found["queries"][0]["total_batches"] if found["pid"] == pid and found["queries"] else 0

    def wait_for_more(self, driver: Driver, more: int = 2) -> None:
        before = self.batches(driver.process.pid)

        def there() -> bool:
            assert driver.process.poll() is None, "the driver has ended"
            return self.batches(driver.process.pid) >= before + more

        wait_until(there, "batches", PATIENCE_S)


@contextmanager
def started(cluster: Standalone, file: Path, bootstrap: str) -> Iterator[Driver]:
    driver = Driver(cluster, file, bootstrap)
    try:
        yield driver
    finally:
        if driver.process.poll() is None:
            driver.kill()


@pytest.mark.skipif(not full_length(), reason="several JVMs for minutes: make soak")
def test_every_record_once_through_kills_of_brokers_executors_and_drivers(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text(PIPELINE)
    (tmp_path / "placing.py").write_text(STEP)
    watched = Watched(tmp_path / "checkpoint")
    with Cluster(brokers=3) as brokers, standalone(tmp_path) as workers:
        bootstrap = brokers.bootstrap
        brokers.create_topic("numbers", partitions=PARTITIONS, config={"min.insync.replicas": "2"})
        with Numbers(bootstrap) as numbers:
            began = now()
            with started(workers, file, bootstrap) as driver:
                watched.wait_for_more(driver)
                leader = brokers.leader("numbers", 0)
                brokers.kill(leader)
                brokers.wait_leader("numbers", 0, not_in=[leader])
                watched.wait_for_more(driver)
                brokers.start(leader)
                workers.kill_executor()
                watched.wait_for_more(driver)
                driver.kill()
            with started(workers, file, bootstrap) as driver:
                watched.wait_for_more(driver)
                # In the middle of a batch, as likely as not: nobody looked.
                workers.kill_executor()
                wait_until(lambda: now() - began > SECONDS, "the end of the minute", SECONDS + 1)
                watched.wait_for_more(driver)
                driver.kill()
            numbers.stop()
            with started(workers, file, bootstrap) as driver:
                watched.wait_for_more(driver, 1)
                assert driver.end(PATIENCE_S) == 0
        last = Driver(workers, file, bootstrap, "--once")
        assert last.process.wait(PATIENCE_S) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    assert numbers.failed == []
    table = spark.read.parquet(str(tmp_path / "table"))
    [sums] = table.selectExpr(
        "count(*) as n", "count(distinct n) as apart", "sum(n) as total", "bit_xor(n) as x"
    ).collect()
    good = sorted(numbers.good)
    checksum = 0
    for number in good:
        checksum ^= number
    assert (sums.n, sums.apart, sums.total, sums.x) == (len(good), len(good), sum(good), checksum)
    assert sorted(row.n for row in table.select("n").collect()) == good
    dead = spark.read.parquet(str(tmp_path / "dead" / "numbers")).collect()
    assert sorted(bytes(row.value) for row in dead) == sorted(b"bad %d" % number for number in numbers.bad)
    homes = {row.home for row in table.select("home").distinct().collect()}
    assert homes and all(home.startswith(str(tmp_path / "work-")) for home in homes), homes
    print(f"{len(good)} records and {len(dead)} dead letters, each once; homes of the package: {sorted(homes)}")
