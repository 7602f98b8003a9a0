"""Kafka's verifiable producer and consumer, which say of every record what became of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.jvm import Ran
from tests.interop.tools import Tools

Unique = Callable[[str], str]
RECORDS = 2000


def events(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, ran.lines()) if event["name"] == name]


@pytest.mark.quick
def test_everything_acknowledged_is_consumed_once(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("verifiable"), partitions=3)
    produced = tools.run("kafka-verifiable-producer", "--topic", topic, "--max-messages", str(RECORDS), "--acks", "-1")
    acknowledged = events(produced, "producer_send_success")
    assert sorted(int(event["value"]) for event in acknowledged) == list(range(RECORDS))
    assert not events(produced, "producer_send_error")
    (data,) = events(produced, "tool_data")
    assert (data["sent"], data["acked"]) == (RECORDS, RECORDS)

    group = unique("verifiable-group")
    consumed = tools.run(
        "kafka-verifiable-consumer",
        *("--topic", topic, "--group-id", group, "--max-messages", str(RECORDS), "--verbose"),
    )
    seen = events(consumed, "record_data")
    assert sorted(int(event["value"]) for event in seen) == list(range(RECORDS))
    where = {(event["partition"], event["offset"]): event["value"] for event in acknowledged}
    assert {(event["partition"], event["offset"]): event["value"] for event in seen} == where
    commits = events(consumed, "offsets_committed")
    assert commits
    assert all(event["success"] for event in commits)
