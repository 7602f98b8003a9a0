"""Faults between nodes, as the supervisor wants them: which node hears nobody, is heard by nobody, or is late.

The nodes do it in their own connections; this is the wish, and the line by which each node hears of it. A node that is
started again hears of it before it does anything.
"""

import asyncio
import json
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.cluster.errors import BadRequest, ClusterError

OPTION: Final = "--links-fd"
# A node whose event loop is busy answers late; one that is paused, when it goes on.
_ANSWER_S: Final = 10.0
MOST_MS: Final = 60_000


@dataclass(slots=True)
class LinkWish:
    """`deaf`: it does not hear these nodes. `mute`: it is not heard by these."""

    deaf: set[int] = field(default_factory=set)
    mute: set[int] = field(default_factory=set)
    delay_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"deaf": sorted(self.deaf), "mute": sorted(self.mute), "delay_ms": self.delay_ms}


class LinkWishes:
    """Of all nodes of a cluster."""

    def __init__(self, nodes: Collection[int]) -> None:
        self._nodes = frozenset(nodes)
        self._wishes = {node: LinkWish() for node in nodes}

    def of(self, node: int) -> LinkWish:
        return self._wishes[node]

    def isolate(self, node: int, from_nodes: Collection[int] | None) -> None:
        """From all others and both ways; with `from_nodes`, only what these send does not reach it."""
        others = self._nodes - {node}
        if from_nodes is None:
            self._wishes[node].deaf |= others
            self._wishes[node].mute |= others
            return
        if node in from_nodes:
            raise BadRequest(f"node {node} cannot be isolated from itself")
        unknown = sorted(set(from_nodes) - others)
        if unknown:
            known = ", ".join(map(str, sorted(self._nodes)))
            raise ClusterError(f"there is no node {unknown[0]} in this cluster (nodes: {known})")
        if not from_nodes:
            raise BadRequest(f"node {node}: name the nodes to isolate it from")
        self._wishes[node].deaf |= set(from_nodes)

    def slow(self, node: int, delay_ms: int) -> None:
        if not 0 <= delay_ms <= MOST_MS:
            raise BadRequest(f"a node can be slowed by 0 to {MOST_MS} ms, not by {delay_ms}")
        self._wishes[node].delay_ms = delay_ms

    def heal(self) -> None:
        self._wishes = {node: LinkWish() for node in self._nodes}


class LinkLine:
    """The supervisor's end of the socket to one process of a node."""

    def __init__(self) -> None:
        self._ours, self._nodes = socket.socketpair()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def fd(self) -> int:
        """What the node inherits."""
        return self._nodes.fileno()

    async def open(self, wish: LinkWish) -> None:
        """The node has its end. It waits for the first wish, so that is told at once; its answer comes when it runs."""
        self._nodes.close()
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)
        self._write(wish)

    async def set(self, wish: LinkWish, *, wait: bool) -> None:
        """Returns when the node has done it; without `wait` when it is told, for a node that is paused."""
        async with self._one_at_a_time:
            self._write(wish)
            if not wait or self._reader is None:
                return
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self._until_done(wish)
            except TimeoutError as error:
                raise ClusterError(f"the node did not answer within {_ANSWER_S:g} s") from error

    async def _until_done(self, wish: LinkWish) -> None:
        """Answers to what was told before, and not waited for, come first."""
        assert self._reader is not None
        while True:
            line = await self._reader.readline()
            if not line:
                # It ended meanwhile: its links are gone with it.
                return
            answer = json.loads(line)
            if not answer.get("ok"):
                raise ClusterError(str(answer.get("error", "the node gave no reason")))
            if answer.get("links") == wish.to_json():
                return

    def _write(self, wish: LinkWish) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(wish.to_json()).encode() + b"\n")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()
            self._nodes.close()
