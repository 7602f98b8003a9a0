"""Broker configs that change while brokers run: for one broker, or for all."""

from collections.abc import Mapping

from tidelog.core.config.key import ConfigError, UpdateMode
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers
from tidelog.core.config.topic import check_inherited
from tidelog.core.config.unknown import not_a_broker_config


def check_dynamic(layer: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[str]]:
    """The usable part of a dynamic layer that stands in the metadata log, and a warning for each value that is not.

    Nothing raises: the values were checked when they were set, maybe by another version, and the node must start.
    """
    usable: dict[str, str] = {}
    warnings: list[str] = []
    for name, text in sorted(layer.items()):
        try:
            validate_broker_config(name, text, per_broker=per_broker)
        except ConfigError as error:
            warnings.append(f"dynamic config ignored: {error}")
        else:
            usable[name] = text
    return usable, warnings


def validate_broker_config(name: str, text: str, *, per_broker: bool) -> str:
    """One dynamic value for a broker (or all of them), as IncrementalAlterConfigs sets it; ConfigError if refused."""
    row = BROKER_KEYS.get(name)
    if row is None:
        raise not_a_broker_config(name)
    if row.update is UpdateMode.READ_ONLY:
        raise ConfigError(f"{name}: cannot be changed while the broker runs")
    if row.update is UpdateMode.PER_BROKER and not per_broker:
        raise ConfigError(f"{name}: can only be set for a single broker")
    row.parse(text)
    for topic_row in TOPIC_KEYS.values():
        if name in topic_row.synonyms:
            check_inherited(ConfigLayers(cluster={name: text}), topic_row)
    return text.strip()
