"""A key that no broker reads, and the key that was probably meant."""

from collections.abc import Iterable
from typing import Final

from tidelog.core.config.key import ConfigError, one_line
from tidelog.core.config.keys import BROKER_KEYS, TOPIC_KEYS

LISTENER_PREFIX: Final = "listener.name."
NAMED_AT_ONCE: Final = 5

# The least ratio of difflib at which we call one key a misspelling of another. A file may hold keys of other programs;
# a key on the command line is meant for us.
_ALIKE_IN_FILE: Final = 0.85
_ALIKE: Final = 0.6
_LONGEST_COMPARED: Final = 200


def refuse_unknown(names: Iterable[str]) -> None:
    """ConfigError for keys of `--set` or `Cluster(config=…)` that no broker reads; one line names each of them."""
    unknown = [name for name in names if name not in BROKER_KEYS and not name.startswith(LISTENER_PREFIX)]
    if unknown:
        more = len(unknown) - NAMED_AT_ONCE
        lines = "; ".join(unknown_key(name) for name in unknown[:NAMED_AT_ONCE])
        raise ConfigError(lines + (f"; and {more} more" if more > 0 else ""))


def unknown_key(name: str) -> str:
    """What is wrong with a key that a person typed, and which key is right."""
    hint = _elsewhere(name) or _misspelt(name, _ALIKE) or f"the nearest known key is {_nearest(name, 0.0)}"
    return f"unknown config key {one_line(name)}: {hint}"


def ignored_key(name: str) -> str:
    """The warning for a key in `server.properties`, where Kafka ignores unknown keys too."""
    hint = _elsewhere(name) or _misspelt(name, _ALIKE_IN_FILE)
    return f"unknown config key {one_line(name)} is ignored" + (f"; {hint}" if hint else "")


def not_a_broker_config(name: str) -> ConfigError:
    """The refusal of a change to a running broker."""
    hint = _elsewhere(name) or _misspelt(name, _ALIKE)
    return ConfigError(f"{one_line(name)}: not a broker config" + (f"; {hint}" if hint else ""))


def not_a_topic_config(name: str) -> ConfigError:
    """The refusal of a topic's own config; a broker's key leads to the topic config that it is the default of."""
    hint = next((f"topics take {row.name}" for row in TOPIC_KEYS.values() if name in row.synonyms), "")
    if not hint and name not in BROKER_KEYS:
        nearest = _closest(name, TOPIC_KEYS, _ALIKE)
        hint = "" if nearest is None else f"did you mean {nearest}?"
    return ConfigError(f"{one_line(name)}: not a topic config" + (f"; {hint}" if hint else ""))


def _elsewhere(name: str) -> str | None:
    """A topic config is valid, but not for a broker."""
    row = TOPIC_KEYS.get(name)
    if row is None:
        return None
    if row.synonyms:
        return f"it is a topic config; brokers take {row.synonyms[0]} as the default of all topics"
    return "it is a topic config; set it with `tidelog configs alter --topic`"


def _misspelt(name: str, alike: float) -> str | None:
    nearest = _nearest(name, alike)
    return None if nearest is None else f"did you mean {nearest}?"


def _nearest(name: str, alike: float) -> str | None:
    """The broker key whose name, or whose topic config's name, is most like `name`."""
    keys = {row.name: row.synonyms[0] for row in TOPIC_KEYS.values() if row.synonyms}
    keys.update({known: known for known in BROKER_KEYS})
    closest = _closest(name, keys, alike)
    return None if closest is None else keys[closest]


def _closest(name: str, known: Iterable[str], alike: float) -> str | None:
    # Only a mistake pays for this import.
    import difflib

    # No key is longer than the bound, and difflib needs the square of the length.
    plain = name.lower().replace("_", ".")[:_LONGEST_COMPARED]
    close = difflib.get_close_matches(plain, known, n=1, cutoff=alike)
    return close[0] if close else None
