"""Java's .properties files, as `java.util.Properties` reads and writes them."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.core.config.key import ConfigError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE_OUT: Final = str.maketrans({char: f"\\{name}" for name, char in _ESCAPES.items()} | {"\\": "\\\\"})


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in file order; a later line for the same key wins. ConfigError names the line of a bad escape."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        name = _unescape(key, number)
        found.pop(name, None)
        found[name] = _unescape(value, number)
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The text that `parse_properties` reads back to the same values, one line each, in the order given."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in values.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without comments and blank lines, with the number of their first line."""
    joined, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            # A lone backslash continues nothing: what follows it is a line of its own, as Java has it.
            if not line or line[0] in "#!":
                continue
            first = number
        if _ends_in_continuation(line):
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined


def _ends_in_continuation(line: str) -> bool:
    """An odd number of backslashes at the end; an even number is that many escaped ones."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Raw key and value: the first unescaped `=`, `:` or blank ends the key; blanks around it do not count."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            # Java drops a lone backslash at the end of the file.
            if char != "\\":
                out.append(char)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ConfigError(f"line {line_number}: \\u needs four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # \uD83D\uDE00 is one character in UTF-16, as Java holds it.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape_key(key: str) -> str:
    return re.sub(r"([ =:#!])", r"\\\1", key.translate(_ESCAPE_OUT))


def _escape_value(value: str) -> str:
    text = value.translate(_ESCAPE_OUT)
    # Only a leading blank would be taken for the separator's.
    return "\\" + text if text.startswith(" ") else text
