"""Three nodes and a fourth that is no controller: what the commands tell of them, and do to them."""

import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands, foreground_up
from tests.cluster.ports import consecutive_ports

from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=4) as running:
        yield running


@pytest.fixture(scope="module")
def tidelog(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap)


def wait_members(tidelog: Commands, *, voters: list[int], observers: list[int]) -> None:
    """A leader knows an observer by its fetches: a new one has heard of none yet. One that followed the node that was
    removed has to find out first who leads now, which takes it seconds.
    """
    wanted = {"current_voters": voters, "current_observers": observers}
    for _ in range(5000):
        quorum = tidelog.json("quorum", "describe")
        seen = {group: sorted(member["id"] for member in quorum[group]) for group in wanted}
        if seen == wanted:
            return
    raise AssertionError(f"members are {seen}, not {wanted}")


def test_up_starts_three_nodes_that_are_one_cluster(tmp_path: Path) -> None:
    data, port = tmp_path / "data", consecutive_ports(3)
    tidelog = Commands(f"localhost:{port + 1}")
    with foreground_up(data, "--port", str(port)) as (process, ready):
        assert ready["bootstrap"] == ",".join(f"127.0.0.1:{port + index}" for index in range(3))
        status = tidelog.json("status", "--data", str(data))
        nodes = status["nodes"]
        assert [(node["id"], node["port"], node["state"]) for node in nodes] == [
            (index + 1, port + index, "running") for index in range(3)
        ]
        assert all(node["roles"] == ["broker", "controller"] for node in nodes)
        assert status["controller"]["id"] in (1, 2, 3) and status["controller"]["epoch"] >= 1
        table = tidelog.run("status", "--data", str(data))
        assert f"active controller: node {status['controller']['id']}, epoch" in table and "NETWORK" not in table
        on_it = ("--data", str(data))
        faults = {"command": "isolate", "node": 2, "from": [3]}
        assert tidelog.json("chaos", "isolate", "2", "--from", "3", *on_it) == faults
        assert tidelog.json("chaos", "slow", "2", "--ms", "5", *on_it) == {"command": "slow", "node": 2, "ms": 5}
        assert "receives nothing from 3; sends 5 ms late\n" in tidelog.run("status", *on_it)
        assert tidelog.json("chaos", "heal", *on_it) == {"command": "heal"}
        tidelog.run("topics", "create", "orders", "--partitions", "3")
        (topic,) = tidelog.json("topics", "describe", "orders")
        assert all(sorted(partition["replicas"]) == [1, 2, 3] for partition in topic["partitions"])
        ends = [os.pidfd_open(node["pid"]) for node in nodes]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        for end in ends:
            assert select.select([end], [], [], 0)[0], "a node outlived its supervisor"
            os.close(end)
    # The same three again, with the voters that stand in their logs.
    assert json.loads((data / "cluster.json").read_text())["quorum"] == "dynamic"
    with foreground_up(data) as (process, ready):
        assert len(ready["bootstrap"].split(",")) == 3
        assert [topic["name"] for topic in tidelog.json("topics", "list")] == ["orders"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_a_node_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    data, port = tmp_path / "data", consecutive_ports(3)
    tidelog = Commands("127.0.0.1:1")
    with foreground_up(data, "--brokers", "3", "--port", str(port)) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    meta = data / "node-2" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=2", "node.id=7"))
    line = tidelog.run_process("up", "--data", str(data), "--ui-port", "0", status=1)
    assert line.startswith("tidelog: node 2: exit status 1: ") and "node 7" in line


def test_the_quorum_is_described_in_kafkas_words(cluster: Cluster, tidelog: Commands) -> None:
    lines = dict(line.split(":", 1) for line in tidelog.run("quorum", "describe").splitlines())
    assert list(lines) == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    voters = json.loads(lines["CurrentVoters"])
    assert [voter["id"] for voter in voters] == [1, 2, 3]
    assert all(voter["endpoints"][0].startswith("CONTROLLER://127.0.0.1:") for voter in voters)
    assert [observer["id"] for observer in json.loads(lines["CurrentObservers"])] == [4]
    head, *rows = tidelog.run("quorum", "describe", "--replication").splitlines()
    assert head.split() == [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ]
    assert [row.split()[-1] for row in rows] == ["Leader", "Follower", "Follower", "Observer"]
    assert {row["node_id"] for row in tidelog.json("quorum", "describe", "--replication")} == {1, 2, 3, 4}


def test_a_voter_is_removed_and_added_again(tidelog: Commands) -> None:
    before = tidelog.json("quorum", "describe")
    (voter,) = [each for each in before["current_voters"] if each["id"] == 3]
    removed = tidelog.json("quorum", "remove", "--id", "3", "--directory-id", voter["directoryId"])
    assert removed == {"node_id": 3, "directory_id": voter["directoryId"], "voter": False}
    wait_members(tidelog, voters=[1, 2], observers=[3, 4])
    assert "node 3 is no voter" in tidelog.run("quorum", "remove", "--id", "3", status=1)
    again = ("quorum", "add", "--id", "3", "--endpoint", voter["endpoints"][0])
    tidelog.run(*again)
    after = tidelog.json("quorum", "describe")
    assert after["current_voters"] == before["current_voters"]
    assert "voter 3" in tidelog.run(*again, status=1)
    assert "node 9 is no voter or observer" in tidelog.run(
        "quorum", "add", "--id", "9", "--endpoint", "CONTROLLER://127.0.0.1:9", status=1
    )


@pytest.mark.rule("O1")
def test_partitions_that_miss_a_broker_are_found_by_the_filters(cluster: Cluster, tidelog: Commands) -> None:
    strict = ("--config", "min.insync.replicas=2")
    tidelog.run("topics", "create", "alone", "--replica-assignment", "4")
    tidelog.run("topics", "create", "strict", "--replica-assignment", "4:1", *strict)
    tidelog.run("topics", "create", "whole", "--replica-assignment", "3:1", *strict)

    def shown(option: str) -> set[str]:
        lines = tidelog.run("topics", "describe", option).splitlines()
        return {line.split("\t")[1].removeprefix("Topic: ") for line in lines}

    cluster.kill(4)
    try:
        cluster.wait_leader("strict", 0, not_in=[4])
        assert shown("--under-replicated-partitions") >= {"alone", "strict"}
        assert shown("--under-min-isr-partitions") == {"alone", "strict"}
        assert shown("--unavailable-partitions") == {"alone"}
        at_minimum = shown("--at-min-isr-partitions")
        assert "whole" in at_minimum and not at_minimum & {"alone", "strict"}
        described = tidelog.run("topics", "describe", "alone")
        assert "\tPartition: 0\tLeader: none\tReplicas: 4\tIsr: \tElr: 4\tLastKnownElr: " in described
    finally:
        cluster.start(4)
    assert cluster.wait_leader("alone", 0) == 4


def test_elections(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "elected", "--replica-assignment", "4:1")
    assert tidelog.json("elect", "--preferred", "--topic", "elected") == [
        {"topic": "elected", "partition": 0, "result": "not-needed", "error": None}
    ]
    assert (
        tidelog.run("elect", "--preferred", "--topic", "elected", "--partition", "0")
        == "no election needed for elected-0\n"
    )
    assert "elected-7" in tidelog.run("elect", "--unclean", "--topic", "elected", "--partition", "7", status=1)
    cluster.kill(4)
    cluster.wait_leader("elected", 0, not_in=[4])
    refused = tidelog.run("elect", "--preferred", "--topic", "elected", status=1)
    assert "elected-0" in refused and "PREFERRED_LEADER_NOT_AVAILABLE" in refused
    cluster.start(4)


def test_a_reassignment_to_a_broker_that_is_away_is_shown_and_cancelled(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "moved", "--replica-assignment", "1:2")
    cluster.pause(4)
    try:
        tidelog.run("reassign", "moved", "--partition", "0", "--replicas", "1,4")
        ongoing = tidelog.json("reassign", "--list")
        assert ongoing == [{"topic": "moved", "partition": 0, "replicas": [1, 4, 2], "adding": [4], "removing": [2]}]
        described = tidelog.run("topics", "describe", "moved")
        assert "\tReplicationFactor: 2\t" in described
        assert "\tIsr: 1,2\tAdding Replicas: 4\tRemoving Replicas: 2\tElr: " in described
        assert tidelog.run("topics", "describe", "moved", "--under-replicated-partitions") == ""
        tidelog.run("reassign", "moved", "--cancel")
        assert tidelog.json("reassign", "--list") == []
        assert "no reassignment is in progress" in tidelog.run("reassign", "--cancel", status=1)
    finally:
        cluster.resume(4)
    assert sorted(tidelog.json("topics", "describe", "moved")[0]["partitions"][0]["replicas"]) == [1, 2]


def test_a_reassignment_is_waited_for_and_its_throttle_taken_away(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "carried", "--replica-assignment", "1:2", "--config", "retention.ms=-1")
    tidelog.run("produce", "carried", stdin="".join(f"{number}\n" for number in range(1000)))
    move = ("reassign", "carried", "--partition", "0", "--replicas", "4,3", "--throttle", "10000000", "--wait")
    change = {"topic": "carried", "partition": 0, "replicas": [4, 3], "adding": [], "removing": []}
    assert tidelog.json(*move) == [change]
    assert "no partition 7" in tidelog.run("reassign", "carried", "--partition", "7", "--wait", status=1)
    cluster.wait_isr("carried", 0, {3, 4})
    (partition,) = tidelog.json("topics", "describe", "carried")[0]["partitions"]
    assert (partition["replicas"], partition["adding"], partition["removing"]) == ([4, 3], [], [])
    assert set(tidelog.json("topics", "describe", "carried")[0]["configs"]) == {"retention.ms", "min.insync.replicas"}
    for broker in ("1", "2", "3", "4"):
        dynamic = {row["name"] for row in tidelog.json("configs", "describe", "--broker", broker)}
        assert not {name for name in dynamic if "throttled" in name}
    read = tidelog.run("consume", "carried", "--from-beginning", "--max", "1000").split()
    assert read == [str(number) for number in range(1000)]
    tidelog.run("elect", "--preferred", "--topic", "carried", "--partition", "0")
    assert cluster.leader("carried", 0) == 4
