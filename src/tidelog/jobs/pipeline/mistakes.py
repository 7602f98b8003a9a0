"""Tables of a TOML file, read key by key; what is wrong is collected with line and key, not raised."""

from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, TypeVar

T = TypeVar("T", str, int, bool)

_WORDS: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "a table", list: "a list"}


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """`line` 0 is the file as a whole."""

    line: int
    key: str
    text: str

    def told(self, file: object) -> str:
        where = f"{file}:{self.line}" if self.line else f"{file}"
        return f"{where}: {self.key}: {self.text}" if self.key else f"{where}: {self.text}"


@dataclass(slots=True)
class Findings:
    """Of one file."""

    lines: dict[tuple[str, ...], int]
    mistakes: list[Mistake] = field(default_factory=list)

    def add(self, path: tuple[str, ...], text: str) -> None:
        """At the key, or at the nearest table around it that stands in the file."""
        # `kafka.group.id` is three keys to TOML unless it stands in quotes.
        at = path if path in self.lines else tuple(".".join(path).split("."))
        while at and at not in self.lines:
            at = at[:-1]
        self.mistakes.append(Mistake(self.lines.get(at, 0), ".".join(path), text))


class Keys:
    """One table. `done` tells of keys that nobody asked for."""

    def __init__(self, findings: Findings, path: tuple[str, ...], values: dict[str, Any]) -> None:
        self.path = path
        self._findings = findings
        self._values = values
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def wrong(self, key: str, text: str) -> None:
        self._findings.add((*self.path, key) if key else self.path, text)

    def raw(self, key: str) -> object:
        """Whatever stands there."""
        return self._values.get(key)

    def _get(self, key: str, kind: type[T]) -> T | None:
        self._asked.append(key)
        value = self._values.get(key)
        if value is None:
            return None
        # True is a whole number to Python, and to nobody else.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.wrong(key, f"{_WORDS[kind]} is expected, not {_shown(value)}")
            return None
        return value

    def text(self, key: str) -> str | None:
        value = self._get(key, str)
        if value is not None and not value.strip():
            self.wrong(key, "is empty")
            return None
        return value

    def needed(self, key: str, what: str) -> str | None:
        """Text that has to be there. None, and it is told, if it is not."""
        value = self.text(key)
        if key not in self._values:
            self.wrong(key, f"is missing: {what}")
        return value

    def choice(self, key: str, allowed: Collection[str], default: str) -> str:
        value = self.text(key)
        if value is None:
            return default
        if value not in allowed:
            self.wrong(key, f"{value!r} is not one of {', '.join(allowed)}{suggestion(value, allowed)}")
            return default
        return value

    def number(self, key: str) -> int | None:
        return self._get(key, int)

    def flag(self, key: str) -> bool:
        return self._get(key, bool) or False

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single one may stand without brackets."""
        self._asked.append(key)
        value = self._values.get(key, [])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            self.wrong(key, f"a list of texts is expected, not {_shown(value)}")
            return ()
        for number, each in enumerate(value):
            if not isinstance(each, str) or not each.strip():
                self.wrong(f"{key}.{number}", f"text is expected, not {_shown(each)}")
        return tuple(each for each in value if isinstance(each, str))

    def table(self, key: str) -> "Keys | None":
        self._asked.append(key)
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(key, f"a table is expected, not {_shown(value)}")
            return None
        return Keys(self._findings, (*self.path, key), value)

    def tables(self, key: str) -> dict[str, "Keys"]:
        """A table of tables, by name."""
        whole = self.table(key)
        if whole is None:
            return {}
        made = {name: whole.table(name) for name in whole._values}
        return {name: each for name, each in made.items() if each is not None}

    def settings(self, key: str) -> dict[str, str]:
        """Options for Spark: any key, values as text."""
        whole = self.table(key)
        if whole is None:
            return {}
        return whole._flat("", whole._values)

    def _flat(self, prefix: str, values: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in values.items():
            if isinstance(value, dict):
                # `kafka.group.id = "x"` without quotes is a table in TOML.
                found |= self._flat(f"{prefix}{key}.", value)
            elif isinstance(value, bool):
                found[prefix + key] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[prefix + key] = str(value)
            else:
                self.wrong(prefix + key, f"text or a number is expected, not {_shown(value)}")
        return found

    def done(self) -> None:
        for key in self._values:
            if key not in self._asked:
                self.wrong(key, f"is not a known key{suggestion(key, self._asked) or _known(self._asked)}")


def suggestion(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, list(known), 1)
    return f", did you mean {close[0]}?" if close else ""


def _known(asked: list[str]) -> str:
    return f": known keys are {', '.join(dict.fromkeys(asked))}"


def _shown(value: object) -> str:
    words = _WORDS.get(type(value))
    return f"{value!r}" if words is None or isinstance(value, str | int) else words
