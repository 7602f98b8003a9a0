"""What commands of every world have in common: lists of ids, durations, links, the worst power cut."""

import random
import re
from typing import Final

from tidelog.sim.scenario.text import Command

_UNITS_S: Final = {"ms": 0.001, "s": 1.0}
_DURATION: Final = re.compile(r"(\d+)(ms|s)")


class NothingSurvives(random.Random):
    """The worst power cut there is: whatever was not promised is gone."""

    def random(self) -> float:
        return 0.0


def ids(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def seconds(text: str) -> float | None:
    """As 150ms or 2s; None if it is no duration."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS_S[found[2]]


def duration_s(command: Command) -> float:
    for word in command.words:
        if (found := seconds(word)) is not None:
            return found
    raise command.fail("how long? As 150ms or 2s")
