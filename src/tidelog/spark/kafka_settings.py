"""The `kafka.*` options of one query, checked against the table (S10). Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.client.security import BadSecurity, Security, SecurityProtocol
from tidelog.client.security import parse as parse_security
from tidelog.spark.errors import OptionError
from tidelog.spark.kafka_keys import KEYS, Rule, Side, Use

PREFIX: Final = "kafka."
# No key is longer, and difflib needs the square of the length.
_LONGEST_COMPARED: Final = 100


class KafkaSettings:
    """OptionError for a key that is unknown or refused, and for a bad value. Values are read by name and type; only a
    key that the table calls honoured can be read.
    """

    def __init__(self, given: Mapping[str, str], side: Side) -> None:
        """`given` without the prefix."""
        self._given = {name.lower(): value for name, value in given.items()}
        self._side = side
        self.read: set[str] = set()
        for name, value in self._given.items():
            rule = self._rule(name)
            if rule.use is Use.REFUSED:
                raise OptionError(f"{PREFIX}{name} cannot be set: {rule.note}")
            if not KEYS[name].value.accepts(value.strip()):
                raise OptionError(f"{PREFIX}{name}={value!r} is not {KEYS[name].value}")

    def _rule(self, name: str) -> Rule:
        if name not in KEYS:
            raise OptionError(f"{PREFIX}{name} is not a setting of Kafka's clients{_nearest(name)}")
        return KEYS[name].rules[self._side]

    def text(self, name: str) -> str | None:
        """None without a value, and for an empty one."""
        return self._value(name) or None

    def whole(self, name: str, default: int) -> int:
        value = self._value(name)
        return default if value is None else int(value)

    def whole_or_none(self, name: str) -> int | None:
        value = self._value(name)
        return None if value is None else int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._value(name)
        return default if value is None else value.lower() == "true"

    def seconds(self, name: str, default_s: float) -> float:
        value = self._value(name)
        return default_s if value is None else int(value) / 1000

    def _value(self, name: str) -> str | None:
        assert self._rule(name).use is Use.HONOURED, f"{name} is read and not honoured"
        self.read.add(name)
        value = self._given.get(name)
        return None if value is None else value.strip()

    def security(self) -> Security | None:
        try:
            return parse_security(_Recorded(self._given, self.read), PREFIX)
        except BadSecurity as error:
            raise OptionError(str(error)) from None

    def warnings(self) -> list[str]:
        """A line for each key that does nothing."""
        found = []
        for name in self._given:
            rule = self._rule(name)
            if rule.use is Use.IGNORED:
                found.append(f"{PREFIX}{name} is ignored: {rule.note.replace('`', '')}")
            elif without := self._has_no_use(name):
                found.append(f"{PREFIX}{name} does nothing: {PREFIX}security.protocol={without}")
        return found

    def _has_no_use(self, name: str) -> str | None:
        """The security protocol, if it has no use for a key of TLS or SASL."""
        protocol = SecurityProtocol((self._given.get("security.protocol") or "PLAINTEXT").strip().upper())
        unused = (name.startswith("ssl.") and not protocol.has_tls) or (
            name.startswith("sasl.") and not protocol.has_sasl
        )
        return protocol.value if unused else None


class _Recorded(Mapping[str, str]):
    """Notes which keys are read."""

    def __init__(self, values: Mapping[str, str], read: set[str]) -> None:
        self._values = values
        self._read = read

    def __getitem__(self, name: str) -> str:
        self._read.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _nearest(name: str) -> str:
    # Only a mistake pays for this import.
    from difflib import get_close_matches

    close = get_close_matches(name[:_LONGEST_COMPARED].replace("_", "."), KEYS, n=1)
    return f": did you mean {PREFIX}{close[0]}?" if close else " (docs/spark-options.md lists them)"
