"""`topics describe` of three real brokers, one of them killed: each filter shows exactly what it is for (O1)."""

from collections.abc import Iterator

import pytest
from tests.cluster.commands import Commands

from tidelog.testing import Cluster

# name: replicas, min.insync.replicas. Broker 3 is the one that is killed.
TOPICS = {
    "alone": ("3", 1),
    "apart": ("1:2", 1),
    "loose": ("3:1", 1),
    "strict": ("3:1", 2),
    "three": ("3:1:2", 2),
    "tight": ("1:2", 2),
    # More than it has replicas: its leader asks for no more than there are.
    "single": ("1", 2),
}
FILTERS = {
    "--under-replicated-partitions": {"alone", "loose", "strict", "three"},
    "--unavailable-partitions": {"alone"},
    "--under-min-isr-partitions": {"alone", "strict"},
    "--at-min-isr-partitions": {"loose", "three", "tight", "single"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


def shown(tidelog: Commands, *options: str) -> set[str]:
    lines = tidelog.run("topics", "describe", *options).splitlines()
    assert all(line.startswith("\tTopic: ") for line in lines), "with a filter there are no lines of topics"
    return {line.split("\t")[1].removeprefix("Topic: ") for line in lines}


@pytest.mark.rule("O1")
def test_each_filter_shows_what_it_should_and_nothing_else(cluster: Cluster) -> None:
    tidelog = Commands(cluster.bootstrap)
    for name, (replicas, minimum) in TOPICS.items():
        config = f"min.insync.replicas={minimum}"
        tidelog.run("topics", "create", name, "--replica-assignment", replicas, "--config", config)
    assert shown(tidelog, "--under-replicated-partitions") == set()
    assert shown(tidelog, "--unavailable-partitions") == set()
    assert shown(tidelog, "--under-min-isr-partitions") == set()
    assert shown(tidelog, "--at-min-isr-partitions") == {"alone", "single", "strict", "tight"}
    cluster.kill(3)
    for name in ("loose", "strict", "three"):
        cluster.wait_leader(name, 0, not_in=[3])
    for option, expected in FILTERS.items():
        assert shown(tidelog, option) == expected, option
        names = {topic["name"] for topic in tidelog.json("topics", "describe", option)}
        assert names == expected, option
    assert shown(tidelog, *FILTERS) == set(TOPICS) - {"apart"}, "several filters show what any of them does"
    assert tidelog.run("topics", "describe", "apart", "--under-replicated-partitions") == ""
    lines = {name: tidelog.run("topics", "describe", name).splitlines()[1] for name in ("alone", "strict", "three")}
    assert lines == {
        "alone": "\tTopic: alone\tPartition: 0\tLeader: none\tReplicas: 3\tIsr: \tElr: 3\tLastKnownElr: 3",
        "strict": "\tTopic: strict\tPartition: 0\tLeader: 1\tReplicas: 3,1\tIsr: 1\tElr: 3\tLastKnownElr: ",
        "three": "\tTopic: three\tPartition: 0\tLeader: 1\tReplicas: 3,1,2\tIsr: 1,2\tElr: \tLastKnownElr: ",
    }
    cluster.start(3)
    assert cluster.wait_leader("alone", 0) == 3
    for name in ("loose", "strict"):
        cluster.wait_isr(name, 0, {1, 3})
    cluster.wait_isr("three", 0, {1, 2, 3})
    assert shown(tidelog, "--under-replicated-partitions") == set()
    assert shown(tidelog, "--under-min-isr-partitions") == set()
