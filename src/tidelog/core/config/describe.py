"""What DescribeConfigs tells of a broker or a topic: every key, its value, and where the value comes from."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.core.config.key import ConfigKey, ConfigType, UpdateMode, format_value
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers
from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import topic_value


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """One place where the value is, or would have been, taken from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One entry of the answer; `value` is None when there is none or when it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str


def describe_topic(
    node: NodeConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """All keys of a topic (or those of `names` that exist) under its overrides."""
    return [_topic_entry(node.layers, overrides, row) for row in _asked(TOPIC_KEYS, overrides, names)]


def describe_broker(node: NodeConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """All keys of this broker (or those of `names` that exist)."""
    layers = node.layers
    given = {**layers.static, **layers.cluster, **layers.broker}
    return [_broker_entry(layers, row) for row in _asked(BROKER_KEYS, given, names)]


def describe_brokers_default(cluster: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
    """The dynamic defaults of all brokers: only what was set."""
    layers = ConfigLayers(cluster=cluster)
    rows = [row for name, row in BROKER_KEYS.items() if name in cluster and (names is None or name in names)]
    return [_default_entry(layers, row) for row in rows]


def _asked(
    table: Mapping[str, ConfigKey], given: Mapping[str, str], names: Collection[str] | None
) -> Iterator[ConfigKey]:
    """Rows in name order; an internal key shows only when it was set."""
    for name, row in table.items():
        if (names is None or name in names) and (not row.internal or name in given):
            yield row


def _topic_entry(layers: ConfigLayers, overrides: Mapping[str, str], row: ConfigKey) -> DescribedConfig:
    own = overrides.get(row.name)
    # As Kafka 4.3: keys in coarser units (log.retention.hours) count for the value and are not told.
    synonyms = tuple(_layered(layers, row.synonyms[0])) if row.synonyms else ()
    if own is not None:
        synonyms = (ConfigSynonym(name=row.name, value=own, source=ConfigSource.TOPIC_CONFIG), *synonyms)
    value = own if own is not None else format_value(topic_value(layers, overrides, row))
    return _entry(row, value, synonyms, read_only=False)


def _broker_entry(layers: ConfigLayers, row: ConfigKey) -> DescribedConfig:
    synonyms = tuple(_layered(layers, row.name))
    text = layers.get(row.name)
    value = row.default if text is None else text
    return _entry(row, value, synonyms, read_only=row.update is UpdateMode.READ_ONLY)


def _default_entry(layers: ConfigLayers, row: ConfigKey) -> DescribedConfig:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    synonyms = tuple(one for one in _layered(layers, row.name) if one.source is source)
    return _entry(row, layers.get(row.name), synonyms, read_only=row.update is UpdateMode.READ_ONLY)


def _entry(
    row: ConfigKey, value: str | None, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool
) -> DescribedConfig:
    return DescribedConfig(
        name=row.name,
        value=None if row.sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        type=row.type,
        read_only=read_only,
        sensitive=row.sensitive,
        synonyms=synonyms,
        documentation=row.doc,
    )


def _layered(layers: ConfigLayers, name: str) -> Iterator[ConfigSynonym]:
    """Every layer that has a value for a broker key, the winning one first."""
    row = BROKER_KEYS[name]
    for texts, source in (
        (layers.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        if name in texts:
            yield ConfigSynonym(name=name, value=None if row.sensitive else texts[name], source=source)
    if row.default is not None:
        value = None if row.sensitive else row.default
        yield ConfigSynonym(name=name, value=value, source=ConfigSource.DEFAULT_CONFIG)
