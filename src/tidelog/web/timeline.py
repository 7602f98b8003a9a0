"""Lines of the timeline from events. What strikes many partitions for one reason is one line that counts them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.web.board import Board, Entry
from tidelog.web.explain import Reason, reason_of

# Events of one kind and reason that come within this time belong together.
TOGETHER_MS: Final = 1_000
MOST_NAMED: Final = 24
_OFFSET: Final = re.compile(r"offset \d+")


class Timeline:
    """Writes to a board's timeline."""

    def __init__(self, board: Board) -> None:
        self._board = board
        # The last line of each cause.
        self._last: dict[tuple[str, str], int] = {}
        # Every node tells who leads the quorum; the first to do so is enough.
        self._quorum: tuple[int, int] = (-1, -1)

    def event(self, told: Mapping[str, Any], node: int, time_ms: int, text: str) -> None:
        """What a node tells of itself."""
        if told["event"] == "quorum_leader_changed" and not self._is_news(told["leader"], told["epoch"]):
            return
        reason = reason_of(told)
        if reason is None:
            return
        # Elsewhere than in its own log a node has a number.
        text = text.replace("this node", f"node {node}", 1)
        name = f"{told['topic']}-{told['partition']}" if "partition" in told else None
        # Where each of them stood is no other cause.
        cause = _OFFSET.sub("offset", str(told.get("reason", ""))) if name is not None else text
        self.say(text, reason, time_ms, node=node, partition=name, cause=(str(told["event"]), cause))

    def say(
        self,
        text: str,
        reason: Reason,
        time_ms: int,
        *,
        node: int | None = None,
        partition: str | None = None,
        cause: tuple[str, str] | None = None,
    ) -> None:
        cause = cause or (reason.kind, text)
        before = self._board.timeline.get(self._last.get(cause, 0))
        if before is not None and partition is not None and time_ms - before.time_ms <= TOGETHER_MS:
            names = before.partitions
            if partition not in names and len(names) < MOST_NAMED:
                names = (*names, partition)
            self._board.tell(replace(before, partitions=names, count=before.count + 1))
            return
        self._last[cause] = self._board.tell(
            Entry(
                id=0,
                time_ms=time_ms,
                kind=reason.kind,
                severity=reason.severity,
                text=text,
                why=reason.why,
                rules=reason.rules,
                node=node,
                partitions=() if partition is None else (partition,),
            )
        )
        if len(self._last) > 2 * MOST_NAMED:
            self._last = {key: each for key, each in self._last.items() if self._board.timeline.get(each) is not None}

    def copy(self, board: Board) -> "Timeline":
        twin = Timeline(board)
        twin._last, twin._quorum = dict(self._last), self._quorum
        return twin

    def _is_news(self, leader: int, epoch: int) -> bool:
        """That a node knows of no leader is news of that node alone, and soon over."""
        if leader < 0 or (leader, epoch) == self._quorum or epoch < self._quorum[1]:
            return False
        self._quorum = (leader, epoch)
        return True
