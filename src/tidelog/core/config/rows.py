"""The words in which the table of keys is written: types, limits and the two kinds of row."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidelog.core.config.key import Check, ConfigKey, ConfigType, Importance, UpdateMode, Value, format_value

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Between:
    """A number within bounds, or one of a few beside them (as -1 for "none")."""

    low: float
    high: float = math.inf
    beside: tuple[int, ...] = ()

    def allows(self, value: Value) -> bool:
        return isinstance(value, int | float) and (self.low <= value <= self.high or value in self.beside)

    def __str__(self) -> str:
        text = f"at least {self.low:.10g}" if self.high == math.inf else f"{self.low:.10g} to {self.high:.10g}"
        return " or ".join([text, *map(str, self.beside)])


@dataclass(frozen=True, slots=True)
class OneOf:
    """A word of a list; for a LIST key each entry must be one."""

    words: tuple[str, ...]
    ignore_case: bool = False

    def allows(self, value: Value) -> bool:
        given = value if isinstance(value, tuple) else (str(value),)
        if self.ignore_case:
            return all(word.lower() in {known.lower() for known in self.words} for word in given)
        return all(word in self.words for word in given)

    def __str__(self) -> str:
        return ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Any text or list with something in it."""

    def allows(self, value: Value) -> bool:
        return value not in ("", ())

    def __str__(self) -> str:
        return "not empty"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or partition:broker pairs."""

    def allows(self, value: Value) -> bool:
        assert isinstance(value, tuple)
        return value == ("*",) or all(re.fullmatch(r"\d+:\d+", pair, re.ASCII) for pair in value)

    def __str__(self) -> str:
        return "* or partition:broker,…"


def at_least(low: float, *beside: int) -> Between:
    return Between(low, beside=beside)


def between(low: float, high: float, *beside: int) -> Between:
    return Between(low, high, beside)


def one_of(*words: str, ignore_case: bool = False) -> OneOf:
    return OneOf(words, ignore_case)


NOT_EMPTY: Final = NotEmpty()
THROTTLED_REPLICAS: Final = ThrottledReplicas()


def key(
    name: str,
    kind: ConfigType,
    default: Value,
    importance: Importance,
    *,
    doc: str,
    check: Check | None = None,
    update: UpdateMode = UpdateMode.READ_ONLY,
    only: Sequence[str] | None = None,
    required: bool = False,
    internal: bool = False,
    synonyms: tuple[str, ...] = (),
) -> ConfigKey:
    """A row; honoured in full unless `only` names the values that are."""
    accepted = None if only is None else tuple(only)
    return ConfigKey(
        name, kind, format_value(default), importance, doc, check, update, accepted, "", required, internal, synonyms
    )


def limited(why: str, *rows: ConfigKey) -> tuple[ConfigKey, ...]:
    """Rows of which only the default (or what the row itself names) is honoured, and why."""
    return tuple(
        replace(row, why=why, only=row.only or (() if row.default is None else (row.default,))) for row in rows
    )
