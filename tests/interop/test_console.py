"""Kafka's console producer and consumer."""

from collections.abc import Callable

import pytest
from tests.interop.tools import Tools

Unique = Callable[[str], str]


@pytest.mark.quick
def test_what_the_console_producer_sends_the_console_consumer_prints(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("console"))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    headers = ("--reader-property", "parse.headers=true")
    tools.produce(topic, ["h1:one,h2:two\tk1:v1", "h1:three\tk2:v2"], *keyed, *headers)
    printing = [
        word
        for what in ("key", "headers", "partition", "offset", "timestamp")
        for word in ("--formatter-property", f"print.{what}=true")
    ]
    first, second = tools.consume(topic, 2, *printing)
    assert first.startswith("CreateTime:")
    assert first.split("\t")[1:] == ["Partition:0", "Offset:0", "h1:one,h2:two", "k1", "v1"]
    assert second.split("\t")[1:] == ["Partition:0", "Offset:1", "h1:three", "k2", "v2"]


def test_every_codec_passes(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("codecs"))
    expected = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = [f"{codec} {number} " + "tide " * 20 for number in range(20)]
        tools.produce(topic, lines, "--compression-codec", codec)
        expected += lines
    assert tools.consume(topic, len(expected)) == [line.rstrip("\n") for line in expected]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acks(tools: Tools, unique: Unique, acks: str) -> None:
    topic = tools.create_topic(unique("acks"))
    extra = ("--command-property", f"acks={acks}", "--command-property", "enable.idempotence=false")
    tools.produce(topic, ["a", "b", "c"], *extra)
    assert tools.consume(topic, 3) == ["a", "b", "c"]


def test_a_group_goes_on_where_it_was(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("resumed"))
    group = unique("group")
    tools.produce(topic, [f"record {n}" for n in range(10)])
    assert tools.consume(topic, 4, "--group", group) == [f"record {n}" for n in range(4)]
    assert tools.consume(topic, 6, "--group", group) == [f"record {n}" for n in range(4, 10)]


def test_a_partition_and_an_offset(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("offset"))
    tools.produce(topic, [f"record {n}" for n in range(10)])
    ran = tools.run(
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "0", "--offset", "7", "--max-messages", "3", "--timeout-ms", "20000"),
    )
    assert ran.lines() == ["record 7", "record 8", "record 9"]
