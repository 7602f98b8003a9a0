"""Turns events into lines of the timeline. One cause that affects many partitions is one line that counts them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.metadata.names import INTERNAL_TOPICS
from tidelog.web.board import Board, Entry, PartitionKey
from tidelog.web.explain import Reason, reason_of

# Events of one kind and reason within this time are one line.
TOGETHER_MS: Final = 1_000
MOST_NAMED: Final = 24
_OFFSET: Final = re.compile(r"offset \d+")


class Timeline:
    """Writes to the timeline of a board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        # The last line of each cause, apart for internal topics.
        self._last: dict[tuple[str, str, bool], int] = {}
        # Every node reports a new quorum leader; the first report is enough.
        self._quorum: tuple[int, int] = (-1, -1)

    def event(self, told: Mapping[str, Any], node: int, time_ms: int, text: str) -> None:
        """Adds an event of a node."""
        if told["event"] == "quorum_leader_changed" and not self._is_news(told["leader"], told["epoch"]):
            return
        reason = reason_of(told)
        if reason is None:
            return
        # "this node" is clear in the log of a node, but not here.
        text = text.replace("this node", f"node {node}", 1)
        partition = (told["topic"], told["partition"]) if "partition" in told else None
        # The same reason at another offset is the same cause.
        cause = _OFFSET.sub("offset", str(told.get("reason", ""))) if partition is not None else text
        internal = told.get("topic") in INTERNAL_TOPICS
        self.say(
            text, reason, time_ms, node=node, partition=partition, cause=(str(told["event"]), cause), internal=internal
        )

    def say(
        self,
        text: str,
        reason: Reason,
        time_ms: int,
        *,
        node: int | None = None,
        partition: PartitionKey | None = None,
        cause: tuple[str, str] | None = None,
        internal: bool = False,
    ) -> None:
        internal = internal or (partition is not None and partition[0] in INTERNAL_TOPICS)
        key = (*(cause or (reason.kind, text)), internal)
        name = None if partition is None else f"{partition[0]}-{partition[1]}"
        before = self._board.timeline.get(self._last.get(key, 0))
        if before is not None and name is not None and time_ms - before.time_ms <= TOGETHER_MS:
            names = before.partitions
            if name not in names and len(names) < MOST_NAMED:
                names = (*names, name)
            self._board.tell(replace(before, partitions=names, count=before.count + 1))
            return
        self._last[key] = self._board.tell(
            Entry(
                id=0,
                time_ms=time_ms,
                kind=reason.kind,
                severity=reason.severity,
                text=text,
                why=reason.why,
                rules=reason.rules,
                node=node,
                partitions=() if name is None else (name,),
                internal=internal,
            )
        )
        if len(self._last) > 2 * MOST_NAMED:
            self._last = {key: each for key, each in self._last.items() if self._board.timeline.get(each) is not None}

    def copy(self, board: Board) -> "Timeline":
        twin = Timeline(board)
        twin._last, twin._quorum = dict(self._last), self._quorum
        return twin

    def _is_news(self, leader: int, epoch: int) -> bool:
        """False for a leader that is known already, and for a node that briefly knows no leader."""
        if leader < 0 or (leader, epoch) == self._quorum or epoch < self._quorum[1]:
            return False
        self._quorum = (leader, epoch)
        return True
