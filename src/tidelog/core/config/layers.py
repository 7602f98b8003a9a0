"""Where a broker's values come from: the file, then the cluster's dynamic defaults, then the broker's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.core.config.key import ConfigError, UpdateMode, Value, one_line
from tidelog.core.config.keys import BROKER_KEYS

_LISTENER_PREFIX: Final = "listener.name."
_NAMED_AT_ONCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLayers:
    """Texts as they were set; a later layer wins over an earlier one."""

    static: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)

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
        elif name.startswith(_LISTENER_PREFIX):
            errors.append(f"{one_line(name)}: settings of a single listener are not supported yet; leave it out")
        else:
            warnings.append(_unknown(name))
    if errors:
        more = len(errors) - _NAMED_AT_ONCE
        raise ConfigError("; ".join(errors[:_NAMED_AT_ONCE]) + (f"; and {more} more" if more > 0 else ""))
    return known, warnings


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
        raise ConfigError(f"{one_line(name)}: not a broker config")
    if row.update is UpdateMode.READ_ONLY:
        raise ConfigError(f"{name}: cannot be changed while the broker runs")
    if row.update is UpdateMode.PER_BROKER and not per_broker:
        raise ConfigError(f"{name}: can only be set for a single broker")
    row.parse(text)
    return text.strip()


def value_of(layers: ConfigLayers, name: str) -> Value:
    """The typed value in force."""
    row = BROKER_KEYS[name]
    text = layers.get(name)
    return row.default_value() if text is None else row.parse(text)


def _unknown(name: str) -> str:
    # Only a mistaken file pays for this import.
    import difflib

    close = difflib.get_close_matches(name, BROKER_KEYS, n=1, cutoff=0.85)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown config key {one_line(name)} is ignored{hint}"
