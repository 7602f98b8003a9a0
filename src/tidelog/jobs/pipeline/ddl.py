"""Schemas in Spark's DDL, checked without Spark: `id BIGINT NOT NULL, tags ARRAY<STRING>`.

Only what can be told without a JVM: the grammar and the names of types.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

_TOKEN: Final = re.compile(
    r"\s+|--[^\n]*|(?P<text>'(?:[^'\\]|\\.|'')*'|\"[^\"]*\")|`(?P<quoted>(?:[^`]|``)+)`|(?P<word>\w+)|(?P<sign>[<>(),:])",
    re.DOTALL,
)
# The types that a JSON record can be read into, and those that take numbers in parentheses: how many at most.
_NUMBERS: Final = {"DECIMAL": 2, "DEC": 2, "NUMERIC": 2}
# Spark has them for tables of a catalog only.
_OF_CATALOGS: Final = ("CHAR", "CHARACTER", "VARCHAR")
# fmt: off
_SIMPLE: Final = frozenset((
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE",
    "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "VARIANT",
))
# fmt: on
_NESTED: Final = frozenset(("ARRAY", "MAP", "STRUCT"))
_TYPES: Final = sorted(_SIMPLE | _NESTED | set(_NUMBERS))


class BadSchema(ValueError):
    """What is wrong with a schema, in one line."""


@dataclass(frozen=True, slots=True)
class Field:
    """One at the top."""

    name: str
    type: str
    required: bool


def fields(text: str, *, is_json: bool = False) -> list[Field]:
    """BadSchema if Spark would not take it. For records of JSON it takes less than for files."""
    parser = _Parser(text, is_json=is_json)
    found = parser.columns(None)
    if not found:
        raise BadSchema("it names no field")
    names = [field.name.lower() for field in found]
    for field in found:
        if names.count(field.name.lower()) > 1:
            raise BadSchema(f"field {field.name!r} occurs twice")
    return found


class _Parser:
    def __init__(self, text: str, *, is_json: bool) -> None:
        self._is_json = is_json
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise BadSchema(f"{text[at : at + 10]!r} is not valid here")
            if found.lastgroup is not None:
                self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "its end")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def _is(self, text: str) -> bool:
        kind, found = self._peek()
        return kind in ("word", "sign") and found.upper() == text

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._next += 1
            return True
        return False

    def _expect(self, text: str, where: str) -> None:
        if not self._accept(text):
            raise BadSchema(f"{text!r} is missing {where}, before {self._peek()[1]!r}")

    def columns(self, closing: str | None) -> list[Field]:
        found: list[Field] = []
        if closing is not None and self._is(closing):
            return found
        while True:
            kind, name = self._take()
            if kind not in ("word", "quoted"):
                raise BadSchema(f"the name of a field is missing before {name!r}")
            self._accept(":")
            made = self._type(name)
            required = False
            if self._accept("NOT"):
                self._expect("NULL", f"after NOT of field {name!r}")
                required = True
            if self._accept("COMMENT") and self._take()[0] != "text":
                raise BadSchema(f"the comment of field {name!r} is not in quotes")
            found.append(Field(name, made, required))
            if self._accept(","):
                continue
            if self._peek()[0] != "end" and (closing is None or not self._is(closing)):
                raise BadSchema(f"a comma is missing after field {name!r}, before {self._peek()[1]!r}")
            return found

    def _type(self, field: str) -> str:
        kind, word = self._take()
        name = word.upper()
        if kind != "word":
            raise BadSchema(f"field {field!r} has no type")
        if name in _OF_CATALOGS:
            raise BadSchema(f"field {field!r}: Spark cannot read {name} here; use STRING")
        if name not in _TYPES:
            close = get_close_matches(name, _TYPES, 1)
            raise BadSchema(f"field {field!r}: {word} is not a type" + (f"; did you mean {close[0]}?" if close else ""))
        if name in _NESTED:
            self._expect("<", f"after {name} of field {field!r}")
            if name == "STRUCT":
                self.columns(">")
            else:
                inner = self._type(field)
                if name == "MAP":
                    if self._is_json and inner != "STRING":
                        raise BadSchema(f"field {field!r}: the keys of a MAP are STRING in JSON, not {inner}")
                    self._expect(",", f"between the types of MAP of field {field!r}")
                    self._type(field)
            self._expect(">", f"at the end of {name} of field {field!r}")
        elif self._accept("("):
            self._numbers(name, field)
        return name

    def _numbers(self, name: str, field: str) -> None:
        most = _NUMBERS.get(name, 0)
        count = 0
        while True:
            kind, word = self._take()
            if kind != "word" or not word.isdecimal():
                raise BadSchema(f"field {field!r}: {word!r} in {name}(…) is not a number")
            count += 1
            if not self._accept(","):
                break
        self._expect(")", f"after {name}( of field {field!r}")
        if count > most:
            raise BadSchema(f"field {field!r}: {name} takes {most or 'no'} numbers in parentheses")
