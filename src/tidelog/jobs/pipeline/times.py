"""Lengths of time as people write them: `500 ms`, `10 seconds`, `5 minutes`, `1 hour 30 minutes`."""

import re
from typing import Final

_PART: Final = re.compile(r"\s*(\d+)\s*([a-z]+)", re.IGNORECASE)
_UNITS: Final = (
    (1, ("ms", "millisecond", "milliseconds")),
    (1000, ("s", "sec", "secs", "second", "seconds")),
    (60_000, ("m", "min", "mins", "minute", "minutes")),
    (3_600_000, ("h", "hour", "hours")),
    (86_400_000, ("d", "day", "days")),
    (604_800_000, ("week", "weeks")),
)
_MS: Final = {name: ms for ms, names in _UNITS for name in names}


def milliseconds(text: str) -> int | None:
    """None if it is no length of time."""
    total, at = 0, 0
    rest = text.strip()
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None or found[2].lower() not in _MS:
            return None
        total += int(found[1]) * _MS[found[2].lower()]
        at = found.end()
    return total if rest else None
