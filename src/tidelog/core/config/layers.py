"""Where a broker's values come from: the file, then the cluster's dynamic defaults, then the broker's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.core.config.key import ConfigError, Value, one_line
from tidelog.core.config.keys import BROKER_KEYS
from tidelog.core.config.unknown import LISTENER_PREFIX, NAMED_AT_ONCE, ignored_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayers:
    """Texts as they were set; a later layer wins over an earlier one."""

    static: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    inherited: dict[str, Value] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What topics inherit, as far as somebody asked: resolving a topic must not parse everything again."""
    topic_configs: list[Any] = field(default_factory=list, init=False, compare=False, repr=False)
    """All of that as a `TopicConfig`, once somebody asked."""

    def get(self, name: str) -> str | None:
        for layer in (self.broker, self.cluster, self.static):
            if name in layer:
                return layer[name]
        return None


def check_static(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The known keys of a file and warnings for the others; every bad value in one ConfigError line."""
    known: dict[str, str] = {}
    warnings: list[str] = []
    errors: list[str] = []
    for name, text in properties.items():
        row = BROKER_KEYS.get(name)
        if row is not None:
            try:
                row.parse(text)
            except ConfigError as error:
                errors.append(str(error))
            known[name] = text
        elif name.startswith(LISTENER_PREFIX):
            errors.append(f"{one_line(name)}: settings of a single listener are not supported yet; leave it out")
        else:
            warnings.append(ignored_key(name))
    if errors:
        more = len(errors) - NAMED_AT_ONCE
        raise ConfigError("; ".join(errors[:NAMED_AT_ONCE]) + (f"; and {more} more" if more > 0 else ""))
    # As in Kafka, either of the two names sets both.
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in known:
            known.setdefault(other, known[name])
    return known, warnings


def value_of(layers: ConfigLayers, name: str) -> Value:
    """The typed value in force."""
    row = BROKER_KEYS[name]
    text = layers.get(name)
    return row.default_value() if text is None else row.parse(text)


def list_of(layers: ConfigLayers, name: str) -> tuple[str, ...]:
    """The entries in force of a LIST key."""
    value = value_of(layers, name)
    return value if isinstance(value, tuple) else ()


def required_list(layers: ConfigLayers, name: str) -> tuple[str, ...]:
    """The same of a key that must not be empty."""
    entries = tuple(filter(None, list_of(layers, name)))
    if not entries:
        raise required(name)
    return entries


def text_of(layers: ConfigLayers, name: str) -> str:
    """The text in force of a STRING key."""
    value = value_of(layers, name)
    return value if isinstance(value, str) else ""


def required(name: str) -> ConfigError:
    return ConfigError(f"{name} is required")
