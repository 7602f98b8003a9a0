"""The table of keys is whole, says the truth about itself, and agrees with the typed configs."""

import dataclasses
import re
import runpy
import typing
from pathlib import Path

import pytest

from tidelog.core.config.key import ConfigError, ConfigKey, ConfigType, UpdateMode, parse_type
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig

ROOT = Path(__file__).resolve().parents[3]
ALL_ROWS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]

# Keys that only feed the attribute of another one.
FEEDERS = {
    "broker.id": "node_id",
    "internal.metadata.log.segment.bytes": "metadata_log_segment_bytes",
    "listener.security.protocol.map": "listeners",
    "log.dir": "log_dirs",
    "log.retention.hours": "log_retention_ms",
    "log.retention.minutes": "log_retention_ms",
    "log.roll.hours": "log_roll_ms",
    "log.roll.jitter.hours": "log_roll_jitter_ms",
}


def test_every_key_of_kafka_4_3_is_known() -> None:
    kafka = [name for name in BROKER_KEYS if not name.startswith("tidelog.")]
    # 360 that ConfigDef knows and the three throttles that exist only as dynamic configs.
    assert len(kafka) == 363
    assert len([name for name in TOPIC_KEYS if not name.startswith("tidelog.")]) == 34


@pytest.mark.parametrize("row", ALL_ROWS, ids=lambda row: row.name)
def test_a_row_is_consistent(row: ConfigKey) -> None:
    assert re.fullmatch(r"[a-z0-9.]+", row.name)
    assert row.doc and "\n" not in row.doc
    if row.default is not None:
        assert row.parse(row.default) == row.default_value(), "the default must be accepted"
        assert row.check is None or row.check.allows(row.default_value())
    for accepted in row.only or ():
        row.parse(accepted)
    assert (row.only is None) == (row.why == ""), "a limit needs its reason, and only a limit"
    assert all(synonym in BROKER_KEYS for synonym in row.synonyms)


@pytest.mark.parametrize("row", TOPIC_KEYS.values(), ids=lambda row: row.name)
def test_a_topic_key_and_its_broker_keys_honour_the_same(row: ConfigKey) -> None:
    for synonym in row.synonyms:
        assert BROKER_KEYS[synonym].only == row.only
        assert BROKER_KEYS[synonym].type is row.type or synonym.endswith((".hours", ".minutes"))


def test_every_honoured_broker_key_has_a_typed_attribute() -> None:
    attributes = set(NodeConfig.__slots__)
    missing = [
        name
        for name, row in BROKER_KEYS.items()
        if row.honoured and FEEDERS.get(name, name.replace(".", "_")) not in attributes
    ]
    assert missing == []


def test_every_attribute_is_a_key() -> None:
    unknown = [name for name in NodeConfig.__slots__ if name.replace("_", ".") not in BROKER_KEYS]
    assert unknown == ["layers"]
    assert [name for name in TopicConfig.__slots__ if name.replace("_", ".") not in TOPIC_KEYS] == []


def test_every_honoured_topic_key_has_an_attribute_with_the_default_of_the_table() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(TopicConfig)}
    for name, row in TOPIC_KEYS.items():
        if row.honoured and name != "internal.segment.bytes":
            assert defaults[name.replace(".", "_")] == row.default_value()


PLAIN_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple[str, ...],
}
# Parsed further than their type says.
RICHER = {"listeners", "advertised.listeners", "controller.quorum.voters", "controller.quorum.bootstrap.servers"}
RICHER |= {"max.connections.per.ip.overrides"}


@pytest.mark.parametrize("owner", [NodeConfig, TopicConfig])
def test_annotations_agree_with_the_types_of_the_table(owner: type) -> None:
    table = BROKER_KEYS if owner is NodeConfig else TOPIC_KEYS
    for attribute, hint in typing.get_type_hints(owner).items():
        name = attribute.replace("_", ".")
        if name in table and name not in RICHER:
            expected = PLAIN_TYPES[table[name].type]
            assert hint in (expected, expected | None), name


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, str(2**63 - 1), 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b", ("a", "b")),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_values_are_read_as_kafka_reads_them(kind: ConfigType, text: str, value: object) -> None:
    assert parse_type(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "\N{ARABIC-INDIC DIGIT FIVE}"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.SHORT, "40000"),
        (ConfigType.LONG, str(2**63)),
        (ConfigType.DOUBLE, "half"),
    ],
)
def test_malformed_values_are_refused(kind: ConfigType, text: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        parse_type(kind, text)


def test_an_error_names_key_value_and_what_is_allowed_in_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        BROKER_KEYS["compression.type"].parse("br\notli")
    assert str(caught.value) == (r"compression.type=br\notli: allowed: uncompressed, zstd, lz4, snappy, gzip, producer")


def test_a_secret_never_stands_in_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        BROKER_KEYS["ssl.key.password"].parse("hunter2")
    assert "hunter2" not in str(caught.value)


def test_listeners_cannot_change_at_run_time_though_kafka_allows_it() -> None:
    assert BROKER_KEYS["listeners"].update is UpdateMode.READ_ONLY


def test_the_documented_table_is_the_one_in_the_code() -> None:
    page = runpy.run_path(str(ROOT / "tools" / "config_table.py"))["page"]()
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == page, "run: python tools/config_table.py > docs/configuration.md"
