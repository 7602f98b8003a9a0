"""kafka-consumer-groups: list, describe, reset and delete."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.adapters.base import Committed, ConsumerOptions, Partition, ProducerOptions
from tests.clients.adapters.confluent import Confluent
from tests.clients.group_member import Member
from tests.clients.targets import Target
from tests.clients.waiting import wait_until
from tests.interop.tools import Tools, rows

Unique = Callable[[str], str]
RECORDS = 20


@pytest.fixture
def topic(tools: Tools, unique: Unique, node: Target) -> str:
    """Two partitions of twenty records."""
    name = tools.create_topic(unique("grouped"), partitions=2)
    producer = Confluent().producer(node.bootstrap, ProducerOptions())
    for number in range(RECORDS * 2):
        producer.send(name, b"%d" % number, partition=number % 2)
    producer.flush()
    producer.close()
    return name


@pytest.fixture
def member(topic: str, unique: Unique, node: Target) -> Iterator[tuple[str, Member]]:
    """A group with one member that has committed offset 5 in both partitions."""
    group = unique("group")
    joined = Member(Confluent(), node.bootstrap, ConsumerOptions(group=group), (topic,))
    wait_until(lambda: len(joined.assigned) == 2, "the member has both partitions")
    joined.commit({Partition(topic, number): Committed(5, "half") for number in range(2)})
    yield group, joined
    joined.leave()


def lags(tools: Tools, group: str) -> list[tuple[str, str, str, str]]:
    found = rows(tools.groups("--describe", "--group", group))
    return sorted((r["PARTITION"], r["CURRENT-OFFSET"], r["LOG-END-OFFSET"], r["LAG"]) for r in found)


@pytest.mark.quick
def test_an_active_group_is_listed_and_described(tools: Tools, topic: str, member: tuple[str, Member]) -> None:
    group, _ = member
    assert group in tools.groups("--list").lines()
    assert f"{group}" in tools.run("kafka-groups", "--list").stdout
    assert lags(tools, group) == [("0", "5", "20", "15"), ("1", "5", "20", "15")]
    (found, *_) = rows(tools.groups("--describe", "--group", group))
    assert found["TOPIC"] == topic
    assert found["CONSUMER-ID"].startswith("rdkafka-")
    assert found["HOST"] == "/127.0.0.1"

    (state,) = rows(tools.groups("--describe", "--group", group, "--state"))
    assert state["GROUP"] == group
    described = tools.groups("--describe", "--group", group, "--state").stdout
    assert "range" in described
    assert "Stable" in described
    (one,) = rows(tools.groups("--describe", "--group", group, "--members", "--verbose"))
    assert one["#PARTITIONS"] == "2"
    assert f"{topic}(0,1)" in one.values() or f"{topic}:0,1" in str(one), one

    busy = tools.try_run("kafka-consumer-groups", "--delete", "--group", group)
    assert "GroupNotEmptyException" in busy.stdout + busy.stderr


def test_offsets_are_reset_and_groups_deleted(tools: Tools, topic: str, member: tuple[str, Member]) -> None:
    group, joined = member
    joined.leave()
    assert lags(tools, group) == [("0", "5", "20", "15"), ("1", "5", "20", "15")]

    def reset(*how: str) -> list[str]:
        ran = tools.groups("--reset-offsets", "--group", group, "--topic", topic, *how)
        return sorted(row["NEW-OFFSET"] for row in rows(ran))

    assert reset("--to-latest", "--dry-run") == ["20", "20"]
    assert lags(tools, group)[0][1] == "5"
    assert reset("--to-earliest", "--execute") == ["0", "0"]
    assert reset("--shift-by", "7", "--execute") == ["7", "7"]
    assert reset("--to-offset", "9", "--execute") == ["9", "9"]
    assert reset("--to-datetime", "2020-01-01T00:00:00.000", "--execute") == ["0", "0"]
    assert reset("--to-latest", "--execute") == ["20", "20"]
    assert lags(tools, group) == [("0", "20", "20", "0"), ("1", "20", "20", "0")]

    tools.groups("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert lags(tools, group) == [("1", "20", "20", "0")]
    deleted = tools.groups("--delete", "--group", group)
    assert "was successful" in deleted.stdout
    assert group not in tools.groups("--list").lines()
    gone = tools.try_run("kafka-consumer-groups", "--describe", "--group", group)
    assert f"GroupIdNotFoundException: Group {group} not found." in gone.stdout
