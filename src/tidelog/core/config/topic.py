"""A topic's config: its own overrides over the broker's values over the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidelog.core.config.key import ConfigKey, Value, format_value
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers
from tidelog.core.config.unknown import not_a_topic_config

if TYPE_CHECKING:
    from tidelog.core.config.node import NodeConfig

# The unit of a broker key, in the topic key's milliseconds.
_UNIT_MS: Final = {".hours": 3_600_000, ".minutes": 60_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What storage, replication and produce need to know of a topic. Without arguments: Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = 2**63 - 1
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    tidelog_record_validation: str = "header"
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """How long a segment may grow: only closed ones are compacted, and that must not wait for too long."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @classmethod
    def resolve(cls, node: "NodeConfig", overrides: Mapping[str, str]) -> "TopicConfig":
        """The values in force for a topic; ConfigError if an override is not valid."""
        if not overrides:
            return inherited_config(node.layers)
        for name in overrides:
            if name not in TOPIC_KEYS:
                raise not_a_topic_config(name)
        values = _values(node.layers, overrides)
        small_segment = overrides.get("internal.segment.bytes")
        if small_segment is not None:
            values["segment_bytes"] = TOPIC_KEYS["internal.segment.bytes"].parse(small_segment)
        return cls(**values)


def inherited_config(layers: ConfigLayers) -> TopicConfig:
    """Of a topic that sets nothing: most do, and metadata asks with every change of a partition."""
    if not layers.topic_configs:
        layers.topic_configs.append(TopicConfig(**_values(layers, {})))
    found: TopicConfig = layers.topic_configs[0]
    return found


def _values(layers: ConfigLayers, overrides: Mapping[str, str]) -> dict[str, Any]:
    return {
        attribute: topic_value(layers, overrides, TOPIC_KEYS[attribute.replace("_", ".")])
        for attribute in TopicConfig.__slots__
    }


def topic_value(layers: ConfigLayers, overrides: Mapping[str, str], row: ConfigKey) -> Value:
    """The typed value in force of one topic key."""
    override = overrides.get(row.name)
    return inherited_value(layers, row) if override is None else row.parse(override)


def inherited_value(layers: ConfigLayers, row: ConfigKey) -> Value:
    """What a topic without an override gets: the first broker synonym that is set, or the default."""
    known = layers.inherited
    if row.name not in known:
        known[row.name] = _inherit(layers, row)
    return known[row.name]


def _inherit(layers: ConfigLayers, row: ConfigKey) -> Value:
    for synonym in row.synonyms:
        text = layers.get(synonym)
        if text is None:
            continue
        value = BROKER_KEYS[synonym].parse(text)
        factor = next((unit for suffix, unit in _UNIT_MS.items() if synonym.endswith(suffix)), 1)
        if row.name == "retention.ms" and isinstance(value, int) and value < 0:
            return -1
        return value * factor if factor > 1 and isinstance(value, int) else value
    return row.default_value()


def check_inherited(layers: ConfigLayers, row: ConfigKey) -> None:
    """ConfigError if the broker's values come to something that the topic key does not allow."""
    if row.check is None or row.check.allows(inherited_value(layers, row)):
        return
    name = next(synonym for synonym in row.synonyms if layers.get(synonym) is not None)
    raise BROKER_KEYS[name].error(layers.get(name) or "", f"allowed: {row.check}")


def validate_topic_config(name: str, value: str) -> str:
    """One override as a client gives it; returns the text to store. ConfigError becomes INVALID_CONFIG."""
    row = TOPIC_KEYS.get(name)
    if row is None:
        raise not_a_topic_config(name)
    return format_value(row.parse(value)) or ""


def change_list(row: ConfigKey, current: str, change: str, *, remove: bool) -> str:
    """The text after IncrementalAlterConfigs APPEND or SUBTRACT on a LIST key."""
    entries = row.list_entries(current)
    changed = row.list_entries(change)
    if remove:
        return ",".join(entry for entry in entries if entry not in changed)
    return ",".join([*entries, *(entry for entry in changed if entry not in entries)])
