"""Every client command against a running broker."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.commands import Commands

from tidelog.cli import export
from tidelog.cli.app import run
from tidelog.cli.output import INTERRUPTED
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture(scope="module")
def tidelog(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap)


@pytest.mark.rule("O1")
def test_topics(tidelog: Commands) -> None:
    created = tidelog.run("topics", "create", "orders", "--partitions", "2", "--config", "retention.ms=600000")
    assert created == "topic orders created (2 partitions, replication factor 1)\n"
    assert "exists" in tidelog.run("topics", "create", "orders", status=1)
    again = tidelog.json("topics", "create", "orders", "--if-not-exists")
    assert again == {"topic": "orders", "created": False}
    assert tidelog.run("topics", "create", "orders", "--if-not-exists") == "topic orders exists, nothing changed\n"
    assert "orders" in tidelog.run("topics", "list").splitlines()
    head, *partitions = tidelog.run("topics", "describe", "orders").splitlines()
    assert head.startswith("Topic: orders\tTopicId: ")
    assert "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: " in head and "retention.ms=600000" in head
    assert partitions == [
        f"\tTopic: orders\tPartition: {n}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: " for n in (0, 1)
    ]
    for quiet in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tidelog.run("topics", "describe", quiet) == ""
    assert len(tidelog.run("topics", "describe", "orders", "--at-min-isr-partitions").splitlines()) == 2
    assert tidelog.json("topics", "alter", "orders", "--partitions", "3") == {"topic": "orders", "partitions": 3}
    assert tidelog.run("topics", "alter", "orders", "--partitions", "4") == "topic orders now has 4 partitions\n"
    assert len(tidelog.json("topics", "describe", "orders")[0]["partitions"]) == 4
    assert "does not exist" in tidelog.run("topics", "describe", "nowhere", status=1)
    assert tidelog.json("topics", "delete", "orders") == {"topic": "orders", "deleted": True}
    assert "orders" not in tidelog.run("topics", "list").splitlines()


@pytest.mark.parametrize("quiet", [True, False])
def test_every_change_is_one_line_or_none_with_q(tidelog: Commands, quiet: bool) -> None:
    changes = [
        (
            ["topics", "create", "changes", "--partitions", "2", "--replication-factor", "1"],
            "topic changes created (2 partitions, replication factor 1)",
        ),
        (["configs", "alter", "--topic", "changes", "--set", "flush.ms=5"], "topic changes: flush.ms=5"),
        (["configs", "alter", "--topic", "changes", "--delete", "flush.ms"], "topic changes: flush.ms deleted"),
        (["topics", "alter", "changes", "--partitions", "3"], "topic changes now has 3 partitions"),
        (["produce", "changes", "--partition", "0"], "2 records written to changes"),
        (
            ["groups", "reset-offsets", "changing", "--topic", "changes", "--to-latest", "--execute"],
            "group changing moved: changes-0 to 2, changes-1 to 0, changes-2 to 0",
        ),
        (
            ["elect", "--preferred", "--topic", "changes", "--partition", "1"],
            "no election needed for changes-1",
        ),
        (
            ["reassign", "changes", "--partition", "2", "--replicas", "1", "--wait"],
            "changes-2 is on brokers 1",
        ),
        (["produce", "changes", "--acks", "0", "--partition", "0"], "2 records sent to changes"),
        (["groups", "delete", "changing"], "group changing deleted"),
        (["topics", "delete", "changes"], "topic changes deleted"),
    ]
    for command, line in changes:
        said = tidelog.run(*command, *(["-q"] if quiet else []), stdin="1\n2\n")
        assert said == ("" if quiet else f"{line}\n"), command


def test_one_record_is_no_plural_and_none_is_none(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "few")
    assert tidelog.run("produce", "few", stdin="1") == "1 record written to few\n"
    assert tidelog.run("produce", "few", stdin="") == "0 records written to few\n"
    # A program that asks for JSON reads it.
    assert tidelog.json("produce", "few", "-q", stdin="1") == {"topic": "few", "records": 1}


def test_replica_assignment(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "assigned", "--replica-assignment", "1,1,1")
    assert [row["replicas"] for row in tidelog.json("topics", "describe", "assigned")[0]["partitions"]] == [[1]] * 3
    tidelog.run("topics", "create", "impossible", "--replica-assignment", "1:9", status=1)
    tidelog.run("topics", "create", "impossible", "--replication-factor", "2", status=1)


def test_configs(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "tuned")
    tidelog.run("configs", "alter", "--topic", "tuned", "--set", "flush.ms=5", "--set", "retention.ms=7")
    altered = tidelog.json("configs", "alter", "--topic", "tuned", "--delete", "flush.ms")
    assert altered == {"topic": "tuned", "set": {}, "deleted": ["flush.ms"]}
    found = {row["name"]: row["value"] for row in tidelog.json("configs", "describe", "--topic", "tuned")}
    assert found["retention.ms"] == "7" and "flush.ms" not in found
    assert "flush.ms" in tidelog.run("configs", "alter", "--topic", "tuned", "--set", "flush.ms=soon", status=1)
    everything = {row["name"] for row in tidelog.json("configs", "describe", "--broker", "1", "--all")}
    assert {"node.id", "log.dirs", "num.partitions"} <= everything
    tidelog.run("configs", "describe", "--topic", "nowhere", status=1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_in_lines_out(tidelog: Commands, codec: str) -> None:
    topic = f"lines-{codec}"
    tidelog.run("topics", "create", topic, "--partitions", "3")
    lines = [f"line {n} ü" for n in range(3000)]
    written = tidelog.json("produce", topic, "--compression", codec, stdin="\n".join(lines))
    assert written == {"topic": topic, "records": 3000}
    read = tidelog.run("consume", topic, "--from-beginning", "--max", "3000")
    assert sorted(read.splitlines()) == sorted(lines)


def test_keys_offsets_and_times(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "keyed", "--partitions", "4")
    tidelog.run("produce", "keyed", "--key-separator", ":", "--acks", "1", stdin="a:1\nb:2\na:3\n")
    assert "line 1" in tidelog.run("produce", "keyed", "--key-separator", ":", stdin="no key here\n", status=1)
    rows = [
        json.loads(line)
        for line in tidelog.run("consume", "keyed", "--from-beginning", "--max", "3", "--json").splitlines()
    ]
    by_key = {row["key"]: row["partition"] for row in rows}
    assert [row["value"] for row in rows if row["key"] == "a"] == ["1", "3"]
    offsets = {row["partition"]: row for row in tidelog.json("offsets", "keyed")}
    assert sum(row["log_end_offset"] for row in offsets.values()) == 3
    assert offsets[by_key["a"]]["high_watermark"] >= 2 and offsets[by_key["a"]]["log_start_offset"] == 0
    partition = str(by_key["a"])
    last = str(max(row["offset"] for row in rows if row["key"] == "a"))
    at_offset = ("--partition", partition, "--offset", last, "--max", "1")
    assert tidelog.run("consume", "keyed", *at_offset, "--key-separator", "=") == "a=3\n"
    at = tidelog.json("offsets", "keyed", "--time", str(rows[0]["timestamp"]))
    assert at[rows[0]["partition"]]["offset"] == 0
    late = tidelog.json("offsets", "keyed", "--time", "99999999999999")
    assert all(row["offset"] is None for row in late)
    assert "offset 77" in tidelog.run("consume", "keyed", "--partition", partition, "--offset", "77", status=1)
    assert tidelog.run("consume", "keyed", "--timeout-ms", "1") == ""


def test_no_input_creates_no_topic(tidelog: Commands) -> None:
    assert tidelog.json("produce", "unwritten", stdin="") == {"topic": "unwritten", "records": 0}
    assert "unwritten" not in tidelog.run("topics", "list").splitlines()
    # One line does.
    assert tidelog.json("produce", "unwritten", stdin="\n") == {"topic": "unwritten", "records": 1}
    assert "unwritten" in tidelog.run("topics", "list").splitlines()


def test_a_topic_that_no_broker_creates_is_reported_at_once(tidelog: Commands) -> None:
    with Cluster(config={"auto.create.topics.enable": "false"}) as strict:
        line = Commands(strict.bootstrap).run("produce", "nowhere", stdin="x\n", status=1)
    assert line == "tidelog: topic 'nowhere' does not exist: `tidelog topics create nowhere` creates it\n"


def test_a_refused_reassignment_leaves_no_throttle(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "unmoved")
    set_before = tidelog.json("configs", "describe", "--topic", "unmoved")
    move = ("reassign", "unmoved", "--partition", "0", "--throttle", "1000", "--replicas")
    # There is no broker 9; and no broker may be named twice.
    tidelog.run(*move, "1,9", status=1)
    tidelog.run(*move, "1,1", status=1)
    assert tidelog.json("configs", "describe", "--topic", "unmoved") == set_before
    rates = {row["name"] for row in tidelog.json("configs", "describe", "--broker", "1")}
    assert not {"leader.replication.throttled.rate", "follower.replication.throttled.rate"} & rates


def test_a_record_that_is_refused_is_one_line(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "narrow", "--config", "max.message.bytes=100")
    refused = tidelog.run("produce", "narrow", stdin="fits\n" + "x" * 200 + "\n", status=1)
    assert "max.message.bytes is 100" in refused and "MESSAGE_TOO_LARGE" in refused


def test_a_record_that_a_new_topic_would_refuse_creates_none(tidelog: Commands) -> None:
    line = "x" * 1_100_000
    said = tidelog.run("produce", "refused", stdin=f"{line}\nsmall\n", status=1)
    assert "line 1 makes a batch of 11000" in said and "message.max.bytes is 1048588" in said
    assert "refused" not in tidelog.run("topics", "list")
    # Compressed it is small.
    assert tidelog.run("produce", "accepted", "--compression", "gzip", stdin=line) == "1 record written to accepted\n"


def test_large_records_that_fit_alone_are_not_put_into_one_batch(tidelog: Commands) -> None:
    lines = "\n".join("x" * size for size in (500_000, 700_000, 10, 1_000_000))
    assert tidelog.run("produce", "large", stdin=lines) == "4 records written to large\n"


def test_a_complete_reassignment_is_a_change_for_programs_too(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "settled", "--replication-factor", "1")
    change = {"topic": "settled", "partition": 0, "replicas": [1], "adding": [], "removing": []}
    assert tidelog.json("reassign", "settled", "--partition", "0", "--replicas", "1", "--wait") == [change]
    assert tidelog.json("reassign", "settled", "--partition", "0", "--wait") == [change]


def test_an_export_that_is_interrupted_before_it_writes_leaves_no_directory(
    cluster: Cluster, tidelog: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidelog.run("topics", "create", "interrupted")

    def interrupt(*_: object) -> None:
        assert directory.is_dir()
        raise KeyboardInterrupt

    directory = tmp_path / "new" / "exported"
    monkeypatch.setattr(export, "on_spark", interrupt)
    assert run(["export", "interrupted", str(directory), "--bootstrap", cluster.bootstrap]) == INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def test_groups(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "shared", "--partitions", "2")
    for partition in ("0", "1"):
        tidelog.run("produce", "shared", "--partition", partition, stdin="\n".join(str(n) for n in range(10)))
    first = tidelog.run("consume", "shared", "--group", "readers", "--from-beginning", "--max", "5").splitlines()
    rest = tidelog.run("consume", "shared", "--group", "readers", "--from-beginning", "--max", "15").splitlines()
    assert sorted(first + rest) == sorted([str(n) for n in range(10)] * 2)
    assert {"group": "readers", "state": "Empty", "protocol_type": "consumer"} in tidelog.json("groups", "list")
    described = tidelog.json("groups", "describe", "readers")
    assert [(row["current_offset"], row["lag"]) for row in described["partitions"]] == [(10, 0), (10, 0)]
    shift = ("groups", "reset-offsets", "readers", "--topic", "shared", "--shift-by=-4")
    assert [row["new_offset"] for row in tidelog.json(*shift)["offsets"]] == [6, 6]
    assert tidelog.json("groups", "describe", "readers")["partitions"][0]["current_offset"] == 10
    tidelog.run(*shift, "--execute")
    assert tidelog.json("groups", "describe", "readers")["partitions"][0]["current_offset"] == 6
    assert tidelog.json("groups", "delete", "readers") == {"group": "readers", "deleted": True}
    assert "readers" in tidelog.run("groups", "delete", "readers", status=1)
    assert "readers" in tidelog.run("groups", "describe", "readers", status=1)


def test_a_group_goes_on_where_it_began_also_in_partitions_it_had_no_time_to_read(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "halves", "--partitions", "2")
    for partition in ("0", "1"):
        tidelog.run("produce", "halves", "--partition", partition, stdin=f"of {partition}\n")
    first = tidelog.run("consume", "halves", "--group", "hasty", "--from-beginning", "--max", "1")
    # Nobody says `--from-beginning` any more: the group knows where it stands.
    rest = tidelog.run("consume", "halves", "--group", "hasty", "--max", "1")
    assert sorted([first, rest]) == ["of 0\n", "of 1\n"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "kill"])
def test_a_signal_leaves_the_group(cluster: Cluster, tidelog: Commands, number: signal.Signals, status: int) -> None:
    tidelog.run("topics", "create", "watched", "--if-not-exists")
    tidelog.run("produce", "watched", stdin="seen\n")
    group = f"watchers-{status}"
    command = [sys.executable, "-m", "tidelog", "consume", "watched", "--group", group, "--from-beginning"]
    with subprocess.Popen(
        [*command, "--bootstrap", cluster.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        assert consumer.stdout.readline() == "seen\n"
        consumer.send_signal(number)
        assert consumer.wait(20) == status
        assert consumer.stderr.read() == ""
    assert tidelog.json("groups", "describe", group)["members"] == []


def test_internal_topics_are_folded_unless_asked_for(tidelog: Commands) -> None:
    tidelog.run("topics", "create", "plain", "--if-not-exists")
    tidelog.run("consume", "plain", "--group", "folding", "--timeout-ms", "1")
    internal = "__consumer_offsets"
    fold = f"1 internal topic not shown ({internal}); --internal shows them"
    out, err = tidelog.run_both("topics", "list")
    assert "plain" in out.splitlines() and internal not in out
    assert err == f"{fold}\n"
    assert tidelog.run_both("topics", "list", "--exclude-internal") == (out, "")
    assert {"plain", internal} <= set(tidelog.run("topics", "list", "--internal").splitlines())
    assert not any(topic["internal"] for topic in tidelog.json("topics", "list"))
    assert any(topic["internal"] for topic in tidelog.json("topics", "list", "--internal"))

    *lines, last = tidelog.run("topics", "describe").splitlines()
    assert last == fold and not any(internal in line for line in lines)
    assert internal in tidelog.run("topics", "describe", "--internal").splitlines()[0]
    # Named is asked for.
    assert tidelog.run("topics", "describe", internal).startswith(f"Topic: {internal}\t")
    assert not any(topic["internal"] for topic in tidelog.json("topics", "describe"))
    assert any(topic["internal"] for topic in tidelog.json("topics", "describe", "--internal"))
    # With a filter the line stands for what matches.
    assert tidelog.run("topics", "describe", "--under-replicated-partitions") == ""
    assert tidelog.run("topics", "describe", "--at-min-isr-partitions").splitlines()[-1] == fold
    both = tidelog.run("topics", "list", "--internal", "--exclude-internal", status=2)
    assert "--internal and --exclude-internal" in both


def test_recording_is_switched_on_by_the_command_that_health_names(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "led-before", "--if-not-exists")
    refused = tidelog.run("health", status=1)
    before, _, command = refused.partition("to switch it on: ")
    assert "recording is off" in before
    program, *words = shlex.split(command)
    assert program == "tidelog"
    tidelog.run(*words)
    # Only rounds of the broker create the topic.
    cluster.wait_leader("__replication_events", 0)
    follow = ["consume", "__replication_events", "--from-beginning", "--max", "1"]
    # Leaders of before the switch come first.
    told = json.loads(tidelog.run(*follow))
    assert (told["event"], told["leader_epoch"], told["node"]) == ("leadership_taken", 0, 1)
    off = ("configs", "alter", "--broker", "default", "--set", "tidelog.replication.events.enable=false")
    tidelog.run(*off)
    assert "events.enable" in tidelog.run("configs", "describe", "--broker", "default")
    tidelog.run("topics", "delete", "__replication_events")
    assert "recording is off" in tidelog.run("health", status=1)


def test_the_files_of_a_live_broker_can_be_dumped(cluster: Cluster, tidelog: Commands) -> None:
    tidelog.run("topics", "create", "dumped")
    tidelog.run("produce", "dumped", "--compression", "zstd", stdin="hello\n")
    data = cluster.directory / "node-1" / "data"
    said = tidelog.run("dump", str(data / "dumped-0" / "00000000000000000000.log"), "--records")
    assert "segment of dumped-0 from offset 0" in said and 'value "hello"' in said
    metadata = tidelog.run("dump", str(data / "__cluster_metadata-0" / "00000000000000000000.log"))
    assert "TopicRecord name=dumped" in metadata and "RegisterBrokerRecord" in metadata
    assert "cluster.id: " in tidelog.run("dump", str(data / "meta.properties"))
