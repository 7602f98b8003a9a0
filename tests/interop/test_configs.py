"""kafka-configs: describe and alter topics and brokers."""

import re
from collections.abc import Callable

import pytest
from tests.interop.jvm import Ran
from tests.interop.tools import Tools

Unique = Callable[[str], str]


def settings(ran: Ran) -> dict[str, str]:
    """key -> value, of lines like `  retention.ms=1000 sensitive=false synonyms={…}`."""
    return dict(re.findall(r"^  ([\w.]+)=(.*) sensitive=", ran.stdout, re.MULTILINE))


@pytest.mark.quick
def test_topic_configs_are_described_and_altered(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("configured"), retention_ms="86400000")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    described = tools.run("kafka-configs", "--describe", *entity)
    assert settings(described) == {"retention.ms": "86400000"}
    assert "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000}" in described.stdout

    everything = settings(tools.run("kafka-configs", "--describe", "--all", *entity))
    assert everything["segment.bytes"] == "1073741824"
    assert everything["max.message.bytes"] == "1048588"
    assert everything["retention.ms"] == "86400000"

    change = "max.message.bytes=2000000,cleanup.policy=[compact,delete]"
    tools.run("kafka-configs", "--alter", *entity, "--add-config", change)
    tools.run("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert settings(tools.run("kafka-configs", "--describe", *entity)) == {
        "max.message.bytes": "2000000",
        "cleanup.policy": "compact,delete",
    }


def test_a_bad_value_is_refused(tools: Tools, unique: Unique) -> None:
    topic = tools.create_topic(unique("badly-configured"))
    entity = ("--entity-type", "topics", "--entity-name", topic)
    refused = tools.try_run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert refused.status == 1
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr
    assert settings(tools.run("kafka-configs", "--describe", *entity)) == {}


def test_broker_configs_are_described_and_altered(tools: Tools) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    everything = settings(tools.run("kafka-configs", "--describe", "--all", *entity))
    assert everything["node.id"] == "1"
    assert everything["log.retention.hours"] == "168"
    assert everything["group.min.session.timeout.ms"] == "1000"

    tools.run("kafka-configs", "--alter", *entity, "--add-config", "log.retention.ms=100000000")
    described = tools.run("kafka-configs", "--describe", *entity)
    assert settings(described)["log.retention.ms"] == "100000000"
    assert "DYNAMIC_BROKER_CONFIG:log.retention.ms=100000000" in described.stdout
    tools.run("kafka-configs", "--alter", *entity, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in settings(tools.run("kafka-configs", "--describe", *entity))

    refused = tools.try_run("kafka-configs", "--alter", *entity, "--add-config", "node.id=2")
    assert refused.status == 1
    assert "InvalidRequestException" in refused.stdout + refused.stderr
