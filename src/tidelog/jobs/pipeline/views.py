"""Which views a query in SQL reads, told from its words alone: Spark is not asked.

A name counts if it stands where a table may stand, after FROM or JOIN of a SELECT or after a comma there, is not
qualified (`a.b` is somebody's catalog), not called (`range(10)`) and not defined by the query itself in WITH.
"""

import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?P<quoted>(?:[^`]|``)+)`|(?P<word>\w+)|(?P<sign>.)",
    re.DOTALL,
)
# fmt: off
_ENDS_TABLES: Final = frozenset((
    "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION",
    "EXCEPT", "MINUS", "INTERSECT", "SELECT", "LATERAL", "PIVOT", "UNPIVOT",
))
# fmt: on
_NO_TABLE: Final = frozenset(("LATERAL", "VALUES", "SELECT", "TABLE", "STREAM"))


@dataclass(slots=True)
class _Frame:
    """What is between two parentheses. `awaits` a table next; `lists` tables, so that a comma brings another."""

    is_query: bool = False
    is_first: bool = True
    awaits: bool = False
    lists: bool = False
    words: list[str] = field(default_factory=list)


def tables_read(sql: str) -> list[str]:
    """Each once, in the order they come; names that the query defines itself are left out."""
    tokens = [
        (found.lastgroup, found[found.lastgroup]) for found in _TOKEN.finditer(sql) if found.lastgroup is not None
    ]
    own = _defined(tokens)
    found: list[str] = []
    frames = [_Frame()]
    for at, (kind, text) in enumerate(tokens):
        frame = frames[-1]
        word = text.upper() if kind == "word" else ""
        if text == "(" and kind == "sign":
            # `FROM (SELECT …)` and `FROM (a JOIN b)` alike.
            frames.append(_Frame(is_query=frame.awaits, awaits=frame.awaits))
            frame.awaits = False
        elif text == ")" and kind == "sign":
            if len(frames) > 1:
                frames.pop()
        elif text == "," and kind == "sign":
            frame.awaits = frame.lists
        elif word in ("SELECT", "WITH") and (frame.is_first or frame.is_query or word == "SELECT"):
            frame.is_query, frame.awaits, frame.lists = True, False, False
        elif word == "FROM":
            is_comparison = frame.words[-1:] == ["DISTINCT"] and frame.words[-2:-1] in (["IS"], ["NOT"])
            if (frame.is_query or (frame.is_first and len(frames) == 1)) and not is_comparison:
                frame.is_query = frame.awaits = frame.lists = True
        elif word == "JOIN" and frame.is_query:
            frame.awaits = True
        elif word in _ENDS_TABLES:
            frame.awaits = frame.lists = False
        elif frame.awaits and kind in ("word", "quoted"):
            if word in _NO_TABLE:
                frame.awaits = word in ("TABLE", "STREAM")
            else:
                frame.awaits = False
                follows = tokens[at + 1][1] if at + 1 < len(tokens) else ""
                if follows not in (".", "(") and text.lower() not in own and text not in found:
                    found.append(text)
        frame.is_first = False
        if kind == "word":
            frame.words.append(word)
    return found


def _defined(tokens: list[tuple[str, str]]) -> set[str]:
    """Names before `AS (`, with or without columns in between, which are those of WITH."""
    own = set()
    for at, (kind, text) in enumerate(tokens[:-2]):
        if kind not in ("word", "quoted"):
            continue
        after = at + 1
        if tokens[after] == ("sign", "("):
            while after < len(tokens) - 1 and tokens[after][1] != ")":
                after += 1
            after += 1
        if after + 1 < len(tokens) and tokens[after][1].upper() == "AS" and tokens[after + 1] == ("sign", "("):
            own.add(text.lower())
    return own
