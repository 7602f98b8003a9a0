"""The whole table: every key of a Kafka 4.3 broker and of a topic, and our own under `tidelog.`."""

from typing import Final

from tidelog.core.config import (
    keys_groups,
    keys_log,
    keys_network,
    keys_node,
    keys_operations,
    keys_remote,
    keys_replication,
    keys_security,
    keys_tidelog,
    keys_topic,
    keys_transactions,
)
from tidelog.core.config.key import ConfigError, ConfigKey, ConfigType, Importance, UpdateMode, Value

__all__ = [
    "BROKER_KEYS",
    "TOPIC_KEYS",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "Importance",
    "UpdateMode",
    "Value",
]

_BROKER_ROWS: Final = (
    *keys_node.HONOURED,
    *keys_network.HONOURED,
    *keys_log.HONOURED,
    *keys_replication.HONOURED,
    *keys_groups.HONOURED,
    *keys_transactions.HONOURED,
    *keys_tidelog.BROKER,
    *keys_node.LIMITED,
    *keys_network.LIMITED,
    *keys_log.LIMITED,
    *keys_replication.LIMITED,
    *keys_groups.LIMITED,
    *keys_transactions.LIMITED,
    *keys_security.LIMITED,
    *keys_remote.LIMITED,
    *keys_operations.LIMITED,
)
_TOPIC_ROWS: Final = (*keys_topic.HONOURED, *keys_topic.LIMITED, *keys_tidelog.TOPIC)

BROKER_KEYS: Final[dict[str, ConfigKey]] = {row.name: row for row in sorted(_BROKER_ROWS, key=lambda row: row.name)}
TOPIC_KEYS: Final[dict[str, ConfigKey]] = {row.name: row for row in sorted(_TOPIC_ROWS, key=lambda row: row.name)}
