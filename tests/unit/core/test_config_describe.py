"""DescribeConfigs: complete, with Kafka's sources and synonyms."""

from tidelog.core.config.describe import (
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_brokers_default,
    describe_topic,
)
from tidelog.core.config.key import ConfigType
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.node import NodeConfig

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


def node(**properties: str) -> NodeConfig:
    return NodeConfig.parse(BASE | {name.replace("_", "."): value for name, value in properties.items()})[0]


def synonyms(entry: DescribedConfig) -> list[tuple[str, str | None, str]]:
    return [(one.name, one.value, one.source.name) for one in entry.synonyms]


def test_a_broker_shows_every_key_that_is_not_internal() -> None:
    names = [entry.name for entry in describe_broker(node())]
    assert names == sorted(name for name, row in BROKER_KEYS.items() if not row.internal)


def test_a_topic_shows_every_key_that_is_not_internal() -> None:
    names = [entry.name for entry in describe_topic(node(), {})]
    assert names == sorted(name for name, row in TOPIC_KEYS.items() if not row.internal)
    names = [entry.name for entry in describe_topic(node(), {"internal.segment.bytes": "100"})]
    assert "internal.segment.bytes" in names


def test_only_the_names_asked_for_and_only_known_ones() -> None:
    assert [entry.name for entry in describe_topic(node(), {}, ["segment.ms", "nonsense"])] == ["segment.ms"]
    assert [entry.name for entry in describe_broker(node(), ["node.id"])] == ["node.id"]


def test_a_topic_value_and_all_the_places_it_could_come_from() -> None:
    changed, _ = node(log_segment_bytes="2000000").with_dynamic(
        cluster={"log.segment.bytes": "3000000"}, broker={"log.segment.bytes": "4000000"}
    )
    (entry,) = describe_topic(changed, {"segment.bytes": "5000000"}, ["segment.bytes"])
    assert (entry.value, entry.source, entry.type) == ("5000000", ConfigSource.TOPIC_CONFIG, ConfigType.INT)
    assert not entry.read_only
    assert synonyms(entry) == [
        ("segment.bytes", "5000000", "TOPIC_CONFIG"),
        ("log.segment.bytes", "4000000", "DYNAMIC_BROKER_CONFIG"),
        ("log.segment.bytes", "3000000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("log.segment.bytes", "2000000", "STATIC_BROKER_CONFIG"),
        ("log.segment.bytes", "1073741824", "DEFAULT_CONFIG"),
    ]
    (entry,) = describe_topic(changed, {}, ["segment.bytes"])
    assert (entry.value, entry.source) == ("4000000", ConfigSource.DYNAMIC_BROKER_CONFIG)


def test_a_topic_value_in_another_unit_than_the_brokers() -> None:
    (entry,) = describe_topic(node(log_retention_hours="2"), {}, ["retention.ms"])
    assert (entry.value, entry.source) == ("7200000", ConfigSource.DEFAULT_CONFIG)
    assert synonyms(entry) == []  # Kafka 4.3.1 tells of log.retention.ms only, which has no value here


def test_a_key_without_any_value_is_a_default() -> None:
    (entry,) = describe_topic(node(), {}, ["remote.storage.enable"])
    assert (entry.value, entry.source, entry.synonyms) == ("false", ConfigSource.DEFAULT_CONFIG, ())
    (entry,) = describe_broker(node(), ["broker.rack"])
    assert (entry.value, entry.source, entry.synonyms) == (None, ConfigSource.DEFAULT_CONFIG, ())


def test_a_broker_key_shows_only_itself() -> None:
    (entry,) = describe_broker(node(log_roll_hours="5"), ["log.roll.ms"])
    assert (entry.value, entry.source) == (None, ConfigSource.DEFAULT_CONFIG)
    assert synonyms(entry) == []
    assert not entry.read_only
    (entry,) = describe_broker(node(log_roll_hours="5"), ["log.roll.hours"])
    assert synonyms(entry) == [
        ("log.roll.hours", "5", "STATIC_BROKER_CONFIG"),
        ("log.roll.hours", "168", "DEFAULT_CONFIG"),
    ]
    (entry,) = describe_broker(node(), ["log.flush.scheduler.interval.ms"])
    assert [one.name for one in entry.synonyms] == ["log.flush.scheduler.interval.ms"]


def test_static_keys_are_read_only_and_either_name_of_the_id_shows_both() -> None:
    entries = {entry.name: entry for entry in describe_broker(node(), ["node.id", "broker.id"])}
    assert all(entry.read_only and entry.value == "1" for entry in entries.values())
    assert entries["node.id"].source is ConfigSource.STATIC_BROKER_CONFIG


def test_secrets_are_marked_and_never_shown() -> None:
    (entry,) = describe_broker(node(), ["ssl.key.password"])
    assert entry.sensitive and entry.value is None
    assert {entry.name for entry in describe_broker(node()) if entry.sensitive} >= {"sasl.jaas.config"}


def test_the_cluster_default_shows_only_what_was_set() -> None:
    (entry,) = describe_brokers_default({"message.max.bytes": "5"})
    assert (entry.name, entry.value, entry.source) == (
        "message.max.bytes",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert [one[2] for one in synonyms(entry)] == ["DYNAMIC_DEFAULT_BROKER_CONFIG"]
    assert describe_brokers_default({"message.max.bytes": "5"}, ["log.roll.ms"]) == []


def test_every_entry_has_words() -> None:
    assert all(entry.documentation for entry in [*describe_broker(node()), *describe_topic(node(), {})])
