"""Kafka's tools against three nodes: the quorum, topics with three replicas, what each node wrote of the metadata."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.waiting import wait_until
from tests.interop.jvm import Ran, run_tool
from tests.interop.test_dump_log import dump, payloads
from tests.interop.tools import Tools, clean

from tidelog.testing import Cluster

NODES = (1, 2, 3)
# Snapshots after a handful of topics, and what lies behind them deleted soon: a node that was away has to fetch one.
CONFIG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.log.segment.bytes": "1000",
}
LAGGING = 3


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(brokers=3, data=tmp_path_factory.mktemp("three") / "data", config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def tools(cluster: Cluster) -> Tools:
    return Tools(cluster.bootstrap)


@pytest.fixture(scope="module")
def controllers(cluster: Cluster) -> str:
    """Their listeners, as --bootstrap-controller wants them."""
    ports = []
    for node in NODES:
        text = (cluster.directory / f"node-{node}" / "server.properties").read_text()
        found = re.search(r"^listeners=.*CONTROLLER://([^,\s]+)", text, re.MULTILINE)
        assert found is not None, text
        ports.append(found.group(1))
    return ",".join(ports)


def status_of(ran: Ran) -> dict[str, str]:
    return dict(re.findall(r"^(\w+):\s+(.*)$", ran.stdout, re.MULTILINE))


def quorum(*where_and_what: str) -> Ran:
    return clean(run_tool("kafka-metadata-quorum", *where_and_what))


def metadata(cluster: Cluster, node: int) -> Path:
    return cluster.directory / f"node-{node}" / "data" / "__cluster_metadata-0"


@pytest.mark.quick
def test_the_quorum_through_brokers_and_through_controllers(cluster: Cluster, controllers: str) -> None:
    ways = (("--bootstrap-server", cluster.bootstrap), ("--bootstrap-controller", controllers))
    by_way = [status_of(quorum(*way, "describe", "--status")) for way in ways]
    for status in by_way:
        assert int(status["LeaderId"]) in NODES
        assert int(status["HighWatermark"]) > 0
        assert [voter["id"] for voter in json.loads(status["CurrentVoters"])] == list(NODES)
        assert json.loads(status["CurrentObservers"]) == []
    assert by_way[0]["ClusterId"] == by_way[1]["ClusterId"]
    assert by_way[0]["LeaderId"] == by_way[1]["LeaderId"]
    for way in ways:
        head, *rows = quorum(*way, "describe", "--replication").lines()
        assert head.split()[:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
        assert sorted(int(row.split()[0]) for row in rows) == list(NODES)
        assert sorted(row.split()[-1] for row in rows) == ["Follower", "Follower", "Leader"]


def test_a_topic_of_three_replicas(tools: Tools) -> None:
    tools.topics("--create", "--topic", "wide", "--partitions", "6", "--replication-factor", "3")
    head, *partitions = tools.topics("--describe", "--topic", "wide").lines()
    assert "ReplicationFactor: 3" in head
    assert len(partitions) == 6
    leaders = []
    for line in partitions:
        fields = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
        assert sorted(fields["Replicas"].split(",")) == sorted(fields["Isr"].split(",")) == ["1", "2", "3"]
        assert fields["Leader"] == fields["Replicas"].split(",")[0]
        leaders.append(fields["Leader"])
    assert sorted(leaders) == ["1", "1", "2", "2", "3", "3"]
    assert tools.topics("--describe", "--under-replicated-partitions").lines() == []


def test_features_elections_and_reassignments_are_told(tools: Tools, controllers: str) -> None:
    described = tools.run("kafka-features", "describe").stdout
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", described))
    assert "metadata.version" in levels
    assert levels["kraft.version"] == "1"
    by_controllers = clean(run_tool("kafka-features", "--bootstrap-controller", controllers, "describe")).stdout
    assert "Feature: metadata.version" in by_controllers

    tools.topics("--create", "--topic", "elected", "--replica-assignment", "1:2:3")
    elected = tools.run(
        "kafka-leader-election", "--election-type", "preferred", "--topic", "elected", "--partition", "0"
    )
    assert "Valid replica already elected for partitions elected-0" in elected.stdout
    listed = tools.run("kafka-reassign-partitions", "--list").stdout
    assert "No partition reassignments found." in listed


def test_a_replica_is_moved_by_kafkas_tool(tools: Tools, tmp_path: Path) -> None:
    tools.topics("--create", "--topic", "moved", "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    moves = [{"topic": "moved", "partition": 0, "replicas": [2, 3]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    told = tools.run("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute").stdout
    assert "Successfully started partition reassignment for moved-0" in told

    def is_there() -> bool:
        verified = tools.try_run("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
        return "Reassignment of partition moved-0 is completed." in verified.stdout

    wait_until(is_there, "the replica is moved")
    (line,) = tools.topics("--describe", "--topic", "moved").lines()[1:]
    assert "Replicas: 2,3" in line


def test_the_metadata_that_each_node_wrote(cluster: Cluster) -> None:
    """Also that of a node which was away so long that it had to fetch a snapshot."""
    cluster.stop(LAGGING)
    before = {path.name for path in metadata(cluster, LAGGING).glob("*.checkpoint")}
    for number in range(40):
        cluster.create_topic(f"while-away-{number}", replication_factor=2)
    others = [node for node in NODES if node != LAGGING]
    end = max(int(name.split("-")[0]) for name in before)

    def was_deleted() -> bool:
        return all(int(sorted(metadata(cluster, node).glob("*.log"))[0].stem) > end for node in others)

    wait_until(was_deleted, "the log that the third node would fetch is gone")
    cluster.start(LAGGING)
    cluster.create_topic("last", replication_factor=3)
    fetched = {path.name for path in metadata(cluster, LAGGING).glob("*.checkpoint")} - before
    assert fetched
    topics: dict[int, set[str]] = {}
    for node in NODES:
        cluster.stop(node) if node == LAGGING else cluster.kill(node)
        checkpoints = sorted(metadata(cluster, node).glob("*.checkpoint"))
        text = dump([checkpoints[-1]], "--cluster-metadata-decoder").stdout
        assert "SnapshotHeader" in text and "SnapshotFooter" in text
        assert text.count("KRaftVoters") == 1 and text.count("KRaftVersion") == 1
        records = payloads(text)
        for segment in sorted(metadata(cluster, node).glob("*.log")):
            if segment.stat().st_size:
                records += payloads(dump([segment], "--cluster-metadata-decoder").stdout)
        topics[node] = {record["data"]["name"] for record in records if record["type"] == "TOPIC_RECORD"}
    assert {"last", "wide", *(f"while-away-{number}" for number in range(40))} <= topics[1]
    assert topics[1] == topics[2] == topics[3]
