"""Kafka's verifiable producer and consumer through a failover."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clients.waiting import wait_until
from tests.interop.failover import RATE, SECONDS, TOPIC, Found, Place, check_log, kill_and_bring_back, three_brokers
from tests.interop.jvm import start_tool
from tests.interop.running import Lines, end, ended

from tidelog.testing import Cluster

# The tool sets `retries=0` unless it is told otherwise; these are the Java producer's own defaults.
PRODUCER = "retries=2147483647\nenable.idempotence=true\n"
# It is closed by one thread while another one sends: so its last record may end.
CLOSED = "Cannot perform operation after producer has been closed"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_brokers() as running:
        yield running


class Events:
    """What a verifiable client has told so far; `name` is what it says of each record."""

    def __init__(self, process: subprocess.Popen[str], log: Path, name: str) -> None:
        self.process = process
        self._lines = Lines(log)
        self._name = name
        self._found: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def of(self, name: str) -> list[dict[str, Any]]:
        for line in self._lines.new():
            if line.startswith("{"):
                event = json.loads(line)
                self._found[event["name"]].append(event)
        return self._found[name]

    def places(self) -> list[Place]:
        return [(event["partition"], event["offset"]) for event in self.of(self._name)]

    def records(self) -> list[Found]:
        return [((event["partition"], event["offset"]), event["value"]) for event in self.of(self._name)]


@contextmanager
def verifiable_consumer(cluster: Cluster, log: Path, group: str) -> Iterator[Events]:
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC)
    process = start_tool("kafka-verifiable-consumer", *where, "--group-id", group, "--verbose", log=log)
    with ended(process):
        yield Events(process, log, "record_data")


@pytest.mark.quick
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("jars")
def test_javas_producer_and_consumer_go_on_through_a_failover(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "producer.properties"
    config.write_text(PRODUCER)
    log = tmp_path / "producer.log"
    producer = start_tool(
        "kafka-verifiable-producer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--throughput", str(RATE), "--acks", "-1"),
        *("--repeating-keys", "20", "--command-config", str(config)),
        log=log,
    )
    produced = Events(producer, log, "producer_send_success")
    with (
        ended(producer),
        verifiable_consumer(cluster, tmp_path / "consumer.log", "through") as consumed,
    ):
        kill_and_bring_back(cluster, produced, consumed)
        end(producer)
        acknowledged = dict(produced.records())
        failed = [event for event in produced.of("producer_send_error") if event["message"] != CLOSED]
        assert not failed, failed[:5]
        (total,) = produced.of("tool_data")
        assert total["acked"] == len(acknowledged)
        wait_until(lambda: acknowledged.keys() <= dict(consumed.records()).keys(), "all is consumed", SECONDS)
        end(consumed.process)
    # A group reads again what it had no time to commit: the same, where it was.
    assert set(consumed.records()) == set(acknowledged.items())

    # And from the beginning, by a group that nobody disturbs.
    with verifiable_consumer(cluster, tmp_path / "again.log", "again") as read:
        wait_until(lambda: len(read.records()) >= len(acknowledged), "all is read again", SECONDS)
        end(read.process)
    check_log(read.records(), set(acknowledged), len(acknowledged))
    assert dict(read.records()) == acknowledged
