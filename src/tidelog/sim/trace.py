"""What happened in a simulation, as JSON lines, and one hash of all of it."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

LAST_LINES: Final = 10_000
SHOWN_LINES: Final = 25
# What happens all the time.
_ROUTINE: Final = ('"acknowledged"', '"written"')


class Trace:
    """Lines go to `sink` and into the hash; the last ones are kept for whoever has to explain a failure.

    Every line carries the virtual time and how many callbacks had run: two runs that took different ways to the same
    faults do not hash alike.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        steps: Callable[[], int],
        sink: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._loop = loop
        self._steps = steps
        self._sink = sink
        self._hash = hashlib.sha256()
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}
        self.listeners: list[Callable[[str, dict[str, Any]], None]] = []

    def record(self, event: str, **fields: Any) -> None:
        entry = {"t": round(self._loop.time(), 6), "steps": self._steps(), "event": event} | fields
        line = json.dumps(entry, separators=(",", ":"))
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._sink(line)
        self.lines.append(line)
        if len(self.lines) > 2 * LAST_LINES:
            del self.lines[:LAST_LINES]
        self.counts[event] = self.counts.get(event, 0) + 1
        for listener in self.listeners:
            listener(event, fields)

    def last(self) -> list[str]:
        """What happened just now, for people."""
        telling = [line for line in self.lines[-LAST_LINES:-SHOWN_LINES] if not any(each in line for each in _ROUTINE)]
        return telling[-SHOWN_LINES:] + self.lines[-SHOWN_LINES:]

    def digest(self) -> str:
        return self._hash.hexdigest()
