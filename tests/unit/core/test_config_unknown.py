"""A key that no broker reads is refused where a person typed it, and the refusal names the key that was meant."""

import pytest

from tidelog.core.config.dynamic import validate_broker_config
from tidelog.core.config.key import ConfigError
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.topic import validate_topic_config
from tidelog.core.config.unknown import refuse_unknown, unknown_key


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num.partition", "did you mean num.partitions?"),
        ("NUM_PARTITIONS", "did you mean num.partitions?"),
        ("partitions", "did you mean num.partitions?"),
        ("min.insync.replica", "did you mean min.insync.replicas?"),
        ("tidelog.metric.port", "did you mean tidelog.metrics.port?"),
        ("replication.factor", "did you mean default.replication.factor?"),
        ("retention.ms", "it is a topic config; brokers take log.retention.ms"),
        ("max.message.bytes", "it is a topic config; brokers take message.max.bytes"),
        ("max.message.byte", "did you mean message.max.bytes?"),
        ("leader.replication.throttled.replicas", "it is a topic config; set it with `tidelog configs alter --topic`"),
        ("zzz", "the nearest known key is "),
    ],
)
def test_an_unknown_key_names_the_right_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        refuse_unknown({"log.retention.hours": "1", name: "1"})
    line = str(refused.value)
    assert line.startswith(f"unknown config key {name}: {hint}") and "\n" not in line


def test_every_refused_key_is_named_up_to_a_bound() -> None:
    with pytest.raises(ConfigError, match=r"unknown config key num\.partition: .*; unknown config key retention\.ms: "):
        refuse_unknown({"num.partition": "1", "retention.ms": "1"})
    with pytest.raises(ConfigError, match=r"; and 4 more$"):
        refuse_unknown({f"key-{n}": "1" for n in range(9)})


def test_every_topic_config_that_is_no_broker_key_leads_somewhere() -> None:
    for name in TOPIC_KEYS.keys() - BROKER_KEYS.keys():
        line = unknown_key(name)
        assert any(f"brokers take {row}" in line for row in BROKER_KEYS) or "configs alter --topic" in line


def test_known_keys_and_keys_of_one_listener_pass() -> None:
    # Keys of a single listener have a refusal of their own.
    refuse_unknown({"num.partitions": "1", "listener.name.plaintext.ssl.keystore.type": "PEM"})


def test_a_key_that_is_not_printable_stays_on_one_line() -> None:
    with pytest.raises(ConfigError) as refused:
        refuse_unknown({"a\nb" * 500: "1"})
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log.retention.hours", "log.retention.hours: not a topic config; topics take retention.ms"),
        ("message.max.bytes", "message.max.bytes: not a topic config; topics take max.message.bytes"),
        ("retention.mss", "retention.mss: not a topic config; did you mean retention.ms?"),
        ("num.partitions", "num.partitions: not a topic config"),
        ("zzz", "zzz: not a topic config"),
    ],
)
def test_a_topic_is_refused_a_brokers_key_by_the_name_of_its_own(name: str, line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_topic_config(name, "1")
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "retention.ms",
            "retention.ms: not a broker config; it is a topic config; "
            "brokers take log.retention.ms as the default of all topics",
        ),
        ("log.retention.m", "log.retention.m: not a broker config; did you mean log.retention.ms?"),
        ("zzz", "zzz: not a broker config"),
    ],
)
def test_a_running_broker_is_refused_a_topic_config_by_the_name_of_its_own(name: str, line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_broker_config(name, "1", per_broker=True)
    assert str(refused.value) == line
