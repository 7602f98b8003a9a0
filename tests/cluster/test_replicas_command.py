"""`tidelog replicas` on a real cluster: at rest, with a broker killed, silent, and live."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        running.create_topic("orders", partitions=2, replication_factor=3, config={"min.insync.replicas": "2"})
        yield running


@pytest.fixture(scope="module")
def tidelog(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap)


@contextmanager
def watching(
    cluster: Cluster, *arguments: str, command: str = "replicas", stdout: int = subprocess.PIPE
) -> "Iterator[subprocess.Popen[str]]":
    whole = [sys.executable, "-m", "tidelog", command, "orders", "--watch", "--interval", "0.05", *arguments]
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": cluster.bootstrap, "COLUMNS": "140", "TERM": "xterm"}
    with subprocess.Popen(whole, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 130
            assert process.stderr is not None and process.stderr.read() == ""
        finally:
            process.kill()


def test_every_replica_is_shown_in_its_own_words(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("produce", "orders", "--partition", "0", stdin="1\n2\n3\n")
    head, *rows = tidelog.run("replicas", "orders", "--partition", "0").splitlines()
    assert head.split()[:4] == ["PARTITION", "REPLICA", "STATE", "IN-ISR"]
    assert head.split()[4:] == ["EPOCH", "LOG-START", "HIGH-WATERMARK", "LOG-END", "LAG", "LAST-CAUGHT-UP"]
    assert sorted(row.split()[2] for row in rows) == ["follower", "follower", "leader"]
    assert all(row.split()[3] == "yes" and row.split()[7:9] == ["3", "0"] for row in rows)
    zero, one = tidelog.json("replicas", "orders")
    assert (zero["partition"], one["partition"]) == (0, 1)
    assert (zero["isr"], zero["maximal_isr"], zero["leader"]) == ([1, 2, 3], [1, 2, 3], cluster.leader("orders", 0))
    for replica in zero["replicas"]:
        assert (replica["log_start_offset"], replica["log_end_offset"], replica["in_isr"]) == (0, 3, True)
        if replica["state"] == "follower":
            assert replica["fetched_to"] == 3 and replica["last_caught_up_ms"] < 30_000
    assert "no partition 7" in tidelog.run("replicas", "orders", "--partition", "7", status=1)
    assert "does not exist" in tidelog.run("replicas", "nowhere", status=1)


def test_a_killed_and_a_silent_broker_are_told_apart(cluster: Cluster, tidelog: Commands) -> None:
    leader = cluster.leader("orders", 0)
    cluster.kill(leader)
    successor = cluster.wait_leader("orders", 0, not_in=[leader])
    silent = ({1, 2, 3} - {leader, successor}).pop()
    cluster.pause(silent)
    try:
        (view,) = tidelog.json("replicas", "orders", "--partition", "0")
        shown = {each["broker"]: each for each in view["replicas"]}
        assert (view["leader"], view["isr"]) == (successor, sorted((successor, silent)))
        assert (shown[leader]["state"], shown[leader]["in_isr"]) == ("offline", False)
        assert (shown[silent]["state"], shown[silent]["in_isr"]) == ("silent", True)
        assert shown[silent]["log_end_offset"] is None and shown[leader]["high_watermark"] is None
        assert shown[successor]["state"] == "leader"
    finally:
        cluster.resume(silent)
        cluster.start(leader)
    cluster.wait_isr("orders", 0, {1, 2, 3})
    assert all(view.high_watermark is not None for view in cluster.replicas("orders", 0))


def test_changes_are_told_line_by_line(cluster: Cluster, tidelog: Commands) -> None:
    with watching(cluster, "--partition", "1") as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        assert all(line.startswith("orders-1 replica=") for line in first)
        gone = next(view.broker for view in cluster.replicas("orders", 1) if not view.is_leader)
        cluster.kill(gone)
        seen = ""
        while f"replica={gone} state=offline isr=no" not in seen:
            seen = process.stdout.readline()
            assert seen, "it ended"
        cluster.start(gone)
        while f"replica={gone} state=follower isr=yes" not in seen:
            seen = process.stdout.readline()
            assert seen, "it ended"


def test_other_things_that_move_are_watched_too(cluster: Cluster, tidelog: Commands) -> None:
    with (
        watching(cluster, command="offsets") as process,
        watching(cluster, "--json", command="offsets") as for_programs,
    ):
        assert process.stdout is not None and for_programs.stdout is not None
        assert process.stdout.readline().split()[0] == "PARTITION"
        before = json.loads(for_programs.stdout.readline())[0]["high_watermark"]
        tidelog.run("produce", "orders", "--partition", "0", stdin="1\n2\n")
        # Only what is not as it was is told again.
        while (line := process.stdout.readline()).split()[:1] != ["PARTITION"]:
            assert line, "it ended"
        while json.loads(for_programs.stdout.readline())[0]["high_watermark"] != before + 2:
            assert for_programs.poll() is None


def test_a_cluster_is_measured(tidelog: Commands) -> None:
    speed = tidelog.json("bench", "--records", "1000")
    assert speed["records"] == 1000 and min(speed["produce_records_per_second"], speed["consume_mb_per_second"]) > 0
    assert [topic["name"] for topic in tidelog.json("topics", "list")] == ["orders"]


def test_a_terminal_is_drawn_in_place(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    try:
        with watching(cluster, stdout=theirs):
            seen = b""
            # The cursor goes up over the table, which is drawn again without the screen being cleared.
            while b"\x1b[1A" not in seen or seen.count(b"CAUGHT-UP") < 3:
                assert select.select([ours], [], [], TIMEOUT_S)[0], seen
                seen += os.read(ours, 65536)
        assert b"\x1b[2J" not in seen and b"leader" in seen
    finally:
        os.close(theirs)
        os.close(ours)
