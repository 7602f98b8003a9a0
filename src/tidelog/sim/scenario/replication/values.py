"""Values of records as a story writes them: `a b 0..100` are 103 of them."""

import re
from collections.abc import Sequence
from typing import Final

_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
# As many numbers in a row, at least, are written as first..last.
_RUN: Final = 3


def values(word: str) -> list[str]:
    """Of one word: itself, or all the numbers of a range."""
    found = _RANGE.fullmatch(word)
    return [word] if found is None else [str(value) for value in range(int(found[1]), int(found[2]) + 1)]


def shortened(values: Sequence[str]) -> list[str]:
    """Numbers in a row as `0..100`."""
    words: list[str] = []
    at = 0
    while at < len(values):
        end = at + 1
        if values[at].isdecimal():
            while end < len(values) and values[end] == str(int(values[at]) + end - at):
                end += 1
        if end - at >= _RUN:
            words.append(f"{values[at]}..{values[end - 1]}")
        else:
            words += values[at:end]
        at = end
    return words
