"""kafka-dump-log reads what the node wrote: segments, indexes, producer snapshots, offsets and metadata."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.clients.adapters.base import Committed, ConsumerOptions, Partition, ProducerOptions
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.group_member import Member
from tests.clients.story import wait_stored
from tests.clients.targets import Target, one_node
from tests.clients.waiting import wait_until
from tests.interop.jvm import Ran, run_tool
from tests.interop.tools import clean

GROUP = "dumped-group"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC = 1500
PER_BATCH = 100
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*compresscodec: (\w+) crc: \d+ isvalid: true")
FIRST_OFFSET = re.compile(r"Non-consecutive offsets in .*/(?P<base>\d+)\.log\n  -1 is followed by (?P<offset>\d+)\n")
PRODUCER = re.compile(r"producerId: (\d+) producerEpoch: 0 .*lastSequence: (\d+)")
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) .*")


def dump(files: list[Path], *args: str) -> Ran:
    assert files
    ran = run_tool("kafka-dump-log", "--files", ",".join(map(str, files)), *args)
    first = FIRST_OFFSET.fullmatch(ran.stderr)
    if first and int(first.group("base")) == int(first.group("offset")):
        ran = replace(ran, stderr="")
    return clean(ran)


@pytest.fixture(scope="module")
def disk(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a node that has been written to and has stopped, as it would stand on a real disk."""
    with one_node(tmp_path_factory.mktemp("dumped")) as node:
        write(node)
        log_dir = node.log_dir
    yield log_dir


def write(node: Target) -> None:
    client = Confluent()
    admin = client.admin(node.bootstrap)
    rng = random.Random(4)
    admin.create_topic("dumped", config={"segment.bytes": "1048576", "index.interval.bytes": "1024"})
    admin.create_topic("gone", partitions=2)
    for codec in CODECS:
        producer = client.producer(node.bootstrap, ProducerOptions(codec=codec, idempotent=True))
        for wave in range(0, PER_CODEC, PER_BATCH):
            numbers = range(wave, wave + PER_BATCH)
            values = [b"tide %d " % n + rng.randbytes(150).hex().encode() for n in numbers]
            wait_stored(
                [
                    producer.send("dumped", value, key=b"%d" % n, partition=0, headers=(("codec", b"x"),))
                    for n, value in zip(numbers, values, strict=True)
                ]
            )
        producer.close()
    member = Member(KafkaPython(), node.bootstrap, ConsumerOptions(group=GROUP), ("dumped",))
    wait_until(lambda: member.assigned, "the member has its partition")
    member.commit({Partition("dumped", 0): Committed(42, "dumped metadata")})
    member.leave()
    admin.alter_topic_config("dumped", {"retention.ms": "86400000"})
    admin.create_partitions("gone", 3)
    admin.delete_topic("gone")
    wait_until(lambda: "gone" not in admin.topics(), "the topic is gone")


@pytest.mark.quick
def test_segments(disk: Path) -> None:
    segments = sorted((disk / "dumped-0").glob("*.log"))
    assert len(segments) > 1, "nothing was rolled"
    # One file at a time: of one that does not begin at 0, the tool says that its first offset follows -1.
    text = "".join(dump([segment], "--deep-iteration", "--print-data-log").stdout for segment in segments)
    records = RECORD.findall(text)
    assert [int(offset) for offset, *_ in records] == list(range(PER_CODEC * len(CODECS)))
    batches = BATCH.findall(text)
    assert len(batches) == text.count("baseOffset: ")
    assert {codec for *_, codec in batches} == set(CODECS)
    assert sum(int(count) for _, _, count, _ in batches) == len(records)
    assert "headerKeys: [codec] key: 0 payload: tide 0 " in text


def test_indexes(disk: Path) -> None:
    folder = disk / "dumped-0"
    indexes = sorted(folder.glob("*.index"))
    times = sorted(folder.glob("*.timeindex"))
    assert len(indexes) == len(times) == len(list(folder.glob("*.log")))
    text = dump(indexes + times, "--index-sanity-check").stdout
    assert len(re.findall("passed sanity check|is empty", text)) == len(indexes + times)
    verified = dump(indexes + times, "--verify-index-only").stdout
    assert verified.count("Dumping") == len(indexes + times)
    shown = dump(indexes).stdout
    entries = re.findall(r"offset: (\d+) position: (\d+)", shown)
    assert len(entries) > 3, "the offset index is empty"
    assert re.findall(r"timestamp: (\d+) offset: (\d+)", dump(times).stdout)


def test_producer_snapshots(disk: Path) -> None:
    snapshots = sorted((disk / "dumped-0").glob("*.snapshot"))
    assert PRODUCER.findall(dump(snapshots).stdout)
    # The last snapshot was taken at the end: every producer with its last record in it.
    producers = PRODUCER.findall(dump(snapshots[-1:]).stdout)
    assert len({producer_id for producer_id, _ in producers}) == len(CODECS)
    assert [int(last) for _, last in producers] == [PER_CODEC - 1] * len(CODECS)


def test_the_offsets_topic(disk: Path) -> None:
    segments = sorted(path for path in disk.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    text = dump(segments, "--offsets-decoder").stdout
    found = [
        (json.loads(key), json.loads(payload) if payload != "<DELETE>" else None)
        for key, payload in re.findall(r"key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$", text, re.MULTILINE)
    ]
    commits = [value["data"] for key, value in found if key["data"].get("topic") == "dumped" and value is not None]
    assert [(commit["offset"], commit["metadata"]) for commit in commits] == [(42, "dumped metadata")]
    groups = [value["data"] for key, value in found if key["type"] == "2" and key["data"]["group"] == GROUP and value]
    stable = [group for group in groups if group["members"]][-1]
    assert (stable["protocolType"], stable["protocol"]) == ("consumer", "range")
    assert stable["members"][0]["subscription"]["topics"] == ["dumped"]
    assert stable["members"][0]["assignment"]["assignedPartitions"] == [{"topic": "dumped", "partitions": [0]}]
    assert groups[-1]["members"] == []


def payloads(text: str) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in re.findall(r"payload: (\{.*\})$", text, re.MULTILINE)]


@pytest.mark.quick
def test_the_metadata_log(disk: Path) -> None:
    folder = disk / "__cluster_metadata-0"
    text = dump(sorted(folder.glob("*.log")), "--cluster-metadata-decoder").stdout
    assert 'LeaderChange: {"version":0,"leaderId":1' in text
    records = payloads(text)
    kinds = {record["type"] for record in records}
    assert {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
        "REMOVE_TOPIC_RECORD",
    } <= kinds
    created = [record["data"] for record in records if record["type"] == "TOPIC_RECORD"]
    topics = {topic["name"]: topic["topicId"] for topic in created}
    assert {"dumped", "gone", "__consumer_offsets"} <= set(topics)
    partitions = [
        record["data"]
        for record in records
        if record["type"] == "PARTITION_RECORD" and record["data"]["topicId"] == topics["dumped"]
    ]
    assert [(p["partitionId"], p["replicas"], p["isr"], p["leader"]) for p in partitions] == [(0, [1], [1], 1)]
    configs = {
        (record["data"]["resourceName"], record["data"]["name"]): record["data"]["value"]
        for record in records
        if record["type"] == "CONFIG_RECORD"
    }
    assert configs[("dumped", "retention.ms")] == "86400000"


def test_metadata_indexes_and_snapshots(disk: Path) -> None:
    folder = disk / "__cluster_metadata-0"
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    checked = dump(indexes, "--index-sanity-check").stdout
    assert len(re.findall("passed sanity check|is empty", checked)) == len(indexes)
    for checkpoint in sorted(folder.glob("*.checkpoint")):
        text = dump([checkpoint], "--cluster-metadata-decoder").stdout
        assert "SnapshotHeader" in text
        assert "SnapshotFooter" in text
