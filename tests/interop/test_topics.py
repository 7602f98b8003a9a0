"""kafka-topics: create, describe, list, alter, delete."""

import re
from collections.abc import Callable

import pytest
from tests.clients.targets import Target
from tests.clients.waiting import wait_until
from tests.interop.jvm import run_tool
from tests.interop.tools import Tools, clean

Unique = Callable[[str], str]


def test_a_topic_from_its_creation_to_its_end(tools: Tools, unique: Unique) -> None:
    topic = unique("topics")
    created = tools.topics("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=86400000")
    assert created.lines() == [f"Created topic {topic}."]
    assert topic in tools.topics("--list").lines()

    head, *partitions = tools.topics("--describe", "--topic", topic).lines()
    fields = dict(re.findall(r"(\w+): (\S*)", head))
    assert fields["Topic"] == topic
    assert (fields["PartitionCount"], fields["ReplicationFactor"]) == ("3", "1")
    assert "retention.ms=86400000" in fields["Configs"].split(",")
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", fields["TopicId"])
    assert [line.strip("\t").split("\t") for line in partitions] == [
        [f"Topic: {topic}", f"Partition: {n}", "Leader: 1", "Replicas: 1", "Isr: 1", "Elr: ", "LastKnownElr: "]
        for n in range(3)
    ]

    tools.topics("--alter", "--topic", topic, "--partitions", "5")
    assert len(tools.topics("--describe", "--topic", topic).lines()) == 6
    for nothing in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tools.topics("--describe", "--topic", topic, nothing).lines() == []

    tools.topics("--delete", "--topic", topic)
    wait_until(lambda: topic not in tools.topics("--list").lines(), f"{topic} is gone")


def test_what_kafka_topics_says_of_mistakes(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("mistakes"), partitions=2)
    again = tools.try_run("kafka-topics", "--create", "--topic", topic)
    assert again.status == 1
    assert "already exists" in again.stdout
    fewer = tools.try_run("kafka-topics", "--alter", "--topic", topic, "--partitions", "1")
    assert fewer.status == 1
    assert "InvalidPartitionsException" in fewer.stdout + fewer.stderr
    missing = tools.try_run("kafka-topics", "--describe", "--topic", "no-such-topic")
    assert missing.status == 1
    assert "does not exist" in missing.stdout + missing.stderr
    wide = tools.try_run("kafka-topics", "--create", "--topic", unique("wide"), "--replication-factor", "3")
    assert wide.status == 1
    assert "InvalidReplicationFactorException" in wide.stdout + wide.stderr


@pytest.mark.quick
def test_the_cluster_describes_itself(tools: Tools, node: Target) -> None:
    cluster_id = clean(run_tool("kafka-cluster", "cluster-id", "--bootstrap-server", node.bootstrap)).stdout
    assert re.search(r"Cluster ID: [A-Za-z0-9_-]{22}", cluster_id)
    versions = tools.run("kafka-broker-api-versions").stdout
    assert f"{node.bootstrap} (id: 1 rack: null isFenced: false) -> (" in versions
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", versions)
    assert re.search(r"ApiVersions\(18\): 0 to \d+ \[usable: \d+\]", versions)


def test_offsets_records_and_directories(tools: Tools, unique: Unique, node: Target) -> None:
    topic = tools.create_topic(unique("offsets"), partitions=2)
    tools.produce(topic, [f"{n}" for n in range(10)])
    latest = tools.run("kafka-get-offsets", "--topic", topic, "--time", "latest").lines()
    assert sum(int(line.split(":")[2]) for line in latest) == 10
    earliest = tools.run("kafka-get-offsets", "--topic", topic, "--time", "earliest").lines()
    assert earliest == [f"{topic}:0:0", f"{topic}:1:0"]
    newest = tools.run("kafka-get-offsets", "--topic", topic, "--time", "max-timestamp").lines()
    assert newest, "a partition that has records has a newest one"

    described = tools.run("kafka-log-dirs", "--describe", "--topic-list", topic).stdout
    assert str(node.log_dir) in described
    assert f'"{topic}-0"' in described
    assert '"error":null' in described
