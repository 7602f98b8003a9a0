"""Where each key of a TOML file stands. `tomllib` says so for syntax errors only.

It is for text that `tomllib` has taken: nothing is checked here again.
"""

from typing import Final

Path = tuple[str, ...]

_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def key_lines(text: str) -> dict[Path, int]:
    """The line of every key and table, counted from 1. An element of an array of tables has its number as a key."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text + "\n"
        self._at = 0
        self._found: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip():
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._found

    # --- what stands on a line of its own ---

    def _header(self) -> Path:
        is_element = self._text.startswith("[[", self._at)
        line = self._line()
        self._at += 2 if is_element else 1
        table = self._resolved(self._keys("]"))
        self._at += 2 if is_element else 1
        self._add(table, line)
        if is_element:
            number = self._elements.get(table, -1) + 1
            self._elements[table] = number
            table = (*table, str(number))
            self._add(table, line)
        return table

    def _resolved(self, keys: Path) -> Path:
        """`[[a]]` and then `[a.b]` is about the newest of them."""
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self._elements:
                path = (*path, str(self._elements[path]))
        return (*path, keys[-1])

    def _pair(self, table: Path) -> None:
        line = self._line()
        keys = self._keys("=")
        self._at += 1
        for end in range(1, len(keys) + 1):
            self._add((*table, *keys[:end]), line)
        self._value((*table, *keys))

    def _add(self, path: Path, line: int) -> None:
        self._found.setdefault(path, line)

    # --- keys and values ---

    def _keys(self, closing: str) -> Path:
        keys: list[str] = []
        while True:
            self._blank(" \t.")
            here = self._peek()
            if here == closing:
                return tuple(keys)
            if here in "\"'":
                keys.append(self._string())
                continue
            start = self._at
            while self._peek() in _BARE:
                self._at += 1
            keys.append(self._text[start : self._at])

    def _value(self, path: Path) -> None:
        self._skip()
        here = self._peek()
        if here in "\"'":
            self._string()
        elif here == "{":
            self._at += 1
            while self._skip(",") and self._peek() != "}":
                self._pair(path)
            self._at += 1
        elif here == "[":
            self._at += 1
            number = 0
            while self._skip(",") and self._peek() != "]":
                self._add((*path, str(number)), self._line())
                self._value((*path, str(number)))
                number += 1
            self._at += 1
        else:
            while self._peek() not in ",]}#\n":
                self._at += 1

    def _string(self) -> str:
        quote = self._peek()
        if self._text.startswith(quote * 3, self._at):
            return self._long_string(quote)
        self._at += 1
        made = []
        while (here := self._peek()) != quote:
            if here == "\\" and quote == '"':
                self._at += 1
                made.append(_ESCAPES.get(self._peek(), self._peek()))
            else:
                made.append(here)
            self._at += 1
        self._at += 1
        return "".join(made)

    def _long_string(self, quote: str) -> str:
        start = self._at = self._at + 3
        while not self._text.startswith(quote * 3, self._at):
            self._at += 2 if self._peek() == "\\" and quote == '"' else 1
        content = self._text[start : self._at]
        self._at += 3
        # Up to two quotes may stand before the closing three.
        while self._peek() == quote:
            self._at += 1
        return content

    # --- characters ---

    def _peek(self) -> str:
        return self._text[self._at]

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _blank(self, characters: str) -> None:
        while self._peek() in characters:
            self._at += 1

    def _skip(self, also: str = "") -> bool:
        """Over blanks, line ends and comments. False at the end of the text."""
        while self._at < len(self._text):
            here = self._peek()
            if here == "#":
                self._at = self._text.index("\n", self._at)
            elif here in " \t\r\n" or here in also:
                self._at += 1
            else:
                return True
        return False
