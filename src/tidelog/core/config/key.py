"""One config key: its type, default and limits, and which of its values Tidelog honours.

A known key is honoured, or it is refused for the values that are not; it is never stored without effect.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from typing import Final, Protocol

Value = bool | int | float | str | tuple[str, ...] | None

_HIDDEN: Final = "[hidden]"


class ConfigError(ValueError):
    """A config that cannot be used; its text is one line for a person."""


class ConfigType(IntEnum):
    """Kafka's types, by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether a running broker takes a new value, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


_BITS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


class Check(Protocol):
    """A limit on a value beyond its type."""

    def allows(self, value: Value) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A row of the table. `default` is Kafka's own text of it, None where there is none."""

    name: str
    type: ConfigType
    default: str | None
    importance: Importance
    doc: str
    check: Check | None
    update: UpdateMode
    # The only values honoured; None: every valid one. `why` says what stands against the others.
    only: tuple[str, ...] | None
    why: str
    required: bool
    internal: bool
    # The broker keys that a topic key falls back to; the first one set wins.
    synonyms: tuple[str, ...]

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def honoured(self) -> bool:
        """Whether every valid value has its effect."""
        return self.only is None

    def default_value(self) -> Value:
        return None if self.default is None else _parse_default(self.type, self.default)

    def parse(self, text: str) -> Value:
        """The typed value of `text`; ConfigError if it is malformed, out of bounds, or not honoured."""
        value = self._parse_valid(text)
        if self.only is not None and value not in [parse_type(self.type, accepted) for accepted in self.only]:
            raise self.error(text, self._only_text())
        return value

    def _parse_valid(self, text: str) -> Value:
        try:
            value = parse_type(self.type, text)
        except ValueError as error:
            raise self.error(text, str(error)) from error
        if self.check is not None and not self.check.allows(value):
            raise self.error(text, f"allowed: {self.check}")
        return value

    def _only_text(self) -> str:
        if not self.only:
            return f"not supported: {self.why}; leave it out"
        return f"not supported: {self.why}; accepted: {' or '.join(repr(value) for value in self.only)}"

    def list_entries(self, text: str) -> tuple[str, ...]:
        """The entries of a LIST value; ConfigError for a key of another type."""
        entries = parse_type(self.type, text)
        if not isinstance(entries, tuple):
            raise ConfigError(f"{self.name}: is not a list, it can be set but not appended to or subtracted from")
        return entries

    def error(self, text: str, reason: str) -> ConfigError:
        """The one line that names key, value and what is allowed."""
        shown = _HIDDEN if self.sensitive else one_line(text)
        return ConfigError(f"{self.name}={shown}: {reason}")


def one_line(text: str, limit: int = 200) -> str:
    """User text made safe for one line of an error or a log."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "…"


def parse_type(kind: ConfigType, text: str) -> Value:
    """`text` as a value of Kafka's type; ValueError says what was expected."""
    text = text.strip()
    if kind is ConfigType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("allowed: true or false")
        return text.lower() == "true"
    if kind in _BITS:
        return _parse_integer(text, _BITS[kind])
    if kind is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError("allowed: a number") from None
    if kind is ConfigType.LIST:
        return tuple(entry.strip() for entry in text.split(",")) if text else ()
    return text


@cache
def _parse_default(kind: ConfigType, text: str) -> Value:
    """A node asks for most defaults several times while it starts; there are as many as keys."""
    return parse_type(kind, text)


def _parse_integer(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Not int(): that would also take underscores, spaces and other scripts' digits.
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        raise ValueError("allowed: a whole number")
    value = int(text)
    if not -(2**bits) <= value < 2**bits:
        raise ValueError(f"allowed: {-(2**bits)} to {2**bits - 1}")
    return value


def format_value(value: Value) -> str | None:
    """The text of a typed value as Kafka prints it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
