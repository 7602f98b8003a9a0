"""The real Prometheus: it reads our nodes, and the alert rules that we ship tell of a broker that was killed."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.clients.waiting import wait_until
from tests.cluster.ports import consecutive_ports
from tests.interop.registries import RegistryUnreachable, ensure_debian, skip_unreachable
from tests.interop.running import ended

from tidelog.testing import Cluster

RULES = Path(__file__).parents[2] / "docs" / "prometheus" / "rules.yml"
SECONDS = 40


@pytest.fixture(scope="module")
def prometheus() -> str:
    try:
        return ensure_debian("prometheus", "prometheus")
    except RegistryUnreachable as error:
        skip_unreachable(error)
        raise


def promtool(*arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["promtool", *arguments], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Server:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def is_ready(self) -> bool:
        try:
            return bool(self._ask("query?query=1"))
        except URLError:
            return False

    def firing(self) -> set[str]:
        alerts = self._ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def values(self, query: str) -> list[float]:
        return [float(found["value"][1]) for found in self._ask(f"query?query={query}")["result"]]

    def _ask(self, what: str) -> Any:
        with urlopen(f"{self._url}/{what}", timeout=SECONDS) as answer:
            return json.load(answer)["data"]


@contextmanager
def running(prometheus: str, directory: Path, targets: list[str]) -> Iterator[Server]:
    # The shipped rules, but nobody waits five minutes here.
    hasty = re.sub(r"\bfor: \w+", "for: 500ms", RULES.read_text())
    (directory / "rules.yml").write_text(hasty)
    config = {
        "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "tidelog", "static_configs": [{"targets": targets}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    port = consecutive_ports(1)
    command = [
        prometheus,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        with ended(process):
            server = Server(port)
            wait_until(server.is_ready, "Prometheus answers")
            yield server


@pytest.mark.quick
def test_promtool_has_nothing_to_complain_of(prometheus: str) -> None:
    assert re.search(r"SUCCESS: \d+ rules found", promtool("check", "rules", str(RULES)))
    promtool("check", "config", "--syntax-only", str(RULES.with_name("prometheus.yml")))


@pytest.mark.quick
@pytest.mark.rule("O3")
def test_a_killed_broker_raises_the_alert_and_its_return_clears_it(prometheus: str, tmp_path: Path) -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        cluster.create_topic("alone", partitions=3, replication_factor=1)
        with urlopen(cluster.metrics_url(1), timeout=SECONDS) as answer:
            promtool("check", "metrics", stdin=answer.read().decode())
        targets = [cluster.metrics_url(node).split("/")[2] for node in (1, 2, 3)]
        with running(prometheus, tmp_path, targets) as server:
            wait_until(lambda: server.values("up") == [1, 1, 1], "all nodes are read")
            wait_until(lambda: server.values("max(kafka_controller_kafkacontroller_globaltopiccount)") == [2], "topics")
            wait_until(lambda: not server.firing(), "no alert is there")
            cluster.kill(2)
            raised = {"KafkaUnderReplicatedPartitions", "KafkaOfflinePartitions"}
            wait_until(lambda: server.firing() >= raised, f"{raised} are raised")
            cluster.start(2)
            # One is about what has happened, and stays: a partition without copies is led by a broker that was killed.
            wait_until(lambda: server.firing() == {"KafkaUncleanLeaderElection"}, "no other alert is left")
            assert server.values("up") == [1, 1, 1]
