"""What happened in a simulation, as JSON lines, and one hash of all of it. `docs/trace.md` is the format."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from tidelog.core.events import Event

FORMAT: Final = 1
"""Grows when a line changes its meaning, or loses a field; new events and fields come without notice."""
LAST_LINES: Final = 10_000
SHOWN_LINES: Final = 25

# Who tells: `source` of a line.
RUN: Final = "run"
FAULT: Final = "fault"
CLIENT: Final = "client"
METADATA: Final = "metadata"
REPLICA: Final = "replica"
NODE: Final = "node"

# What happens all the time.
_ROUTINE: Final = ('"acknowledged"', '"written"', '"read"', '"source":"replica"')
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


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
        self._ended = False
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}
        self.listeners: list[Callable[[str, dict[str, Any]], None]] = []

    @property
    def now_s(self) -> float:
        """As lines have it."""
        return round(self._loop.time(), 6)

    def record(self, source: str, event: str, **fields: Any) -> None:
        if self._ended:
            return
        line = _encode({"t": self.now_s, "steps": self._steps(), "source": source, "event": event, **fields})
        self._hash.update(f"{line}\n".encode())
        self._sink(line)
        lines = self.lines
        lines.append(line)
        if len(lines) > 2 * LAST_LINES:
            del lines[:LAST_LINES]
        self.counts[event] = self.counts.get(event, 0) + 1
        for listener in self.listeners:
            listener(event, fields)

    def node_event(self, node_id: int, event: Event) -> None:
        """What a node tells of itself: `SimCluster.on_event`."""
        fields = event.as_dict()
        self.record(NODE, fields.pop("event"), node=node_id, **fields)

    def last(self) -> list[str]:
        """What happened just now, for people."""
        telling = [line for line in self.lines[-LAST_LINES:-SHOWN_LINES] if not any(each in line for each in _ROUTINE)]
        return telling[-SHOWN_LINES:] + self.lines[-SHOWN_LINES:]

    def end(self) -> str:
        """The hash of all lines. What happens while the world is taken down is not told any more."""
        self._ended = True
        return self._hash.hexdigest()
