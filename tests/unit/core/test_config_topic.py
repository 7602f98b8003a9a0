"""A topic's config: its own value, else the broker's, else the default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.config.dynamic import validate_broker_config
from tidelog.core.config.key import ConfigError
from tidelog.core.config.keys import TOPIC_KEYS
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig, change_list, validate_topic_config

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


def node(**properties: str) -> NodeConfig:
    return NodeConfig.parse(BASE | {name.replace("_", "."): value for name, value in properties.items()})[0]


def test_without_overrides_it_is_kafkas_defaults() -> None:
    assert TopicConfig.resolve(node(), {}) == TopicConfig()


def test_the_brokers_value_stands_under_the_topics_own() -> None:
    broker = node(log_segment_bytes="2000000", min_insync_replicas="2", log_retention_hours="1")
    config = TopicConfig.resolve(broker, {"segment.bytes": "3000000", "cleanup.policy": "compact,delete"})
    assert config.segment_bytes == 3_000_000
    assert config.min_insync_replicas == 2
    assert config.retention_ms == 3_600_000
    assert config.is_compacted and config.is_deleted_by_retention


def test_dynamic_broker_values_reach_the_topic() -> None:
    changed, _ = node(log_segment_bytes="2000000").with_dynamic(cluster={"log.segment.bytes": "4000000"}, broker={})
    assert TopicConfig.resolve(changed, {}).segment_bytes == 4_000_000


def test_every_broker_synonym_reaches_its_topic_key() -> None:
    broker = node(
        compression_type="zstd",
        log_cleanup_policy="compact",
        log_flush_interval_messages="1",
        log_index_interval_bytes="1",
        log_index_size_max_bytes="8",
        log_message_timestamp_type="LogAppendTime",
        log_roll_jitter_hours="1",
        message_max_bytes="77",
        tidelog_record_validation="full",
        unclean_leader_election_enable="true",
    )
    config = TopicConfig.resolve(broker, {})
    assert config == TopicConfig(
        compression_type="zstd",
        cleanup_policy=("compact",),
        flush_messages=1,
        index_interval_bytes=1,
        segment_index_bytes=8,
        message_timestamp_type="LogAppendTime",
        segment_jitter_ms=3_600_000,
        max_message_bytes=77,
        tidelog_record_validation="full",
        unclean_leader_election_enable=True,
    )


def test_a_small_segment_for_tests_wins() -> None:
    config = TopicConfig.resolve(node(), {"internal.segment.bytes": "100", "segment.bytes": "3000000"})
    assert config.segment_bytes == 100


@pytest.mark.parametrize(
    ("name", "given_text", "stored"),
    [
        ("segment.bytes", " 2097152 ", "2097152"),
        ("segment.bytes", "+2097152", "2097152"),
        ("preallocate", "FALSE", "false"),
        ("cleanup.policy", " compact , delete", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "0", "0"),
        ("compression.gzip.level", "-1", "-1"),
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("tidelog.record.validation", "full", "full"),
    ],
)
def test_a_valid_override_is_stored_in_one_form(name: str, given_text: str, stored: str) -> None:
    assert validate_topic_config(name, given_text) == stored


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("foo", "x", "foo: not a topic config"),
        ("log.segment.bytes", "2000000", "log.segment.bytes: not a topic config"),
        ("segment.bytes", "100", "segment.bytes=100: allowed: at least 1048576"),
        ("cleanup.policy", "Delete", "cleanup.policy=Delete: allowed: compact, delete"),
        ("retention.ms", "-2", "retention.ms=-2: allowed: at least -1"),
        ("compression.gzip.level", "0", "allowed: 1 to 9 or -1"),
        ("message.timestamp.type", "createtime", "allowed: CreateTime, LogAppendTime"),
        ("remote.storage.enable", "true", "tiered storage is not built yet; accepted: 'false'"),
        ("max.compaction.lag.ms", "0", "allowed: at least 1"),
        ("follower.replication.throttled.replicas", "1:2,x", "allowed: * or partition:broker"),
        ("tidelog.record.validation", "none", "allowed: header, full"),
    ],
)
def test_a_bad_override_is_one_clear_line(name: str, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_config(name, text)
    assert line in str(caught.value)


def test_resolve_refuses_what_validate_refuses() -> None:
    with pytest.raises(ConfigError, match="not a topic config"):
        TopicConfig.resolve(node(), {"foo": "1"})
    with pytest.raises(ConfigError, match="at least 1048576"):
        TopicConfig.resolve(node(), {"segment.bytes": "1"})


@given(st.sampled_from(sorted(TOPIC_KEYS)), st.text(max_size=20))
def test_any_text_is_stored_in_a_stable_form_or_refused(name: str, text: str) -> None:
    try:
        stored = validate_topic_config(name, text)
    except ConfigError as error:
        assert str(error).isprintable()
    else:
        assert validate_topic_config(name, stored) == stored


def test_lists_can_be_appended_to_and_subtracted_from() -> None:
    row = TOPIC_KEYS["cleanup.policy"]
    assert change_list(row, "delete", "compact,delete", remove=False) == "delete,compact"
    assert change_list(row, "", "compact", remove=False) == "compact"
    assert change_list(row, "delete,compact", "delete", remove=True) == "compact"
    with pytest.raises(ConfigError, match="is not a list"):
        change_list(TOPIC_KEYS["segment.bytes"], "1", "2", remove=False)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("node.id", "2", "cannot be changed while the broker runs"),
        ("nonsense", "2", "nonsense: not a broker config"),
        ("log.retention.ms", "0", "log.retention.ms=0: allowed: at least 1 or -1"),
        ("log.roll.ms", "0", "log.roll.ms=0: allowed: at least 1"),
        ("ssl.keystore.location", "/x", "can only be set for a single broker"),
    ],
)
def test_a_dynamic_broker_value_that_cannot_be_set(name: str, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_broker_config(name, text, per_broker=False)
    assert line in str(caught.value)


def test_a_dynamic_broker_value_that_can() -> None:
    assert validate_broker_config("log.segment.bytes", " 2000000 ", per_broker=False) == "2000000"
    assert validate_broker_config("log.segment.bytes", "2000000", per_broker=True) == "2000000"
