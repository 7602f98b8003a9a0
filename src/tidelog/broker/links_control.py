"""How a supervisor sets the links of its node: a line of JSON each way over a socket that the node inherits.

-> {"deaf": [1, 3], "mute": [1, 3], "delay_ms": 0}
<- {"ok": true, "links": {"deaf": [1, 3], "mute": [1, 3], "delay_ms": 0}}

The first line comes at once: the node waits for it, so that no byte leaves that should not.
"""

import asyncio
import json
import logging
import socket
from typing import Final

from tidelog.broker.links import Links, LinkState

log = logging.getLogger("tidelog.links")

_MAX_LINE_BYTES: Final = 64 * 1024


async def obey(links: Links, fd: int, told: asyncio.Event) -> None:
    """Until the supervisor is gone; then everything is whole again, since nobody is left to heal it.

    Sets `told` when the first line, or none, has come.
    """
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=fd), limit=_MAX_LINE_BYTES)
    try:
        while line := await reader.readline():
            writer.write(_answer(links, line))
            told.set()
            await writer.drain()
    except (ConnectionError, ValueError) as error:
        log.warning("the supervisor's connection is closed: %s", error)
    finally:
        told.set()
        links.set(LinkState())
        writer.close()


def in_words(state: LinkState) -> str:
    faults = []
    if state.deaf:
        faults.append(f"messages from {_nodes(state.deaf)} are dropped")
    if state.mute:
        faults.append(f"messages to {_nodes(state.mute)} are dropped")
    if state.delay_s:
        faults.append(f"messages to other nodes are delayed by {1000 * state.delay_s:g} ms")
    return "links to other nodes: " + (", ".join(faults) or "no faults")


def _nodes(nodes: frozenset[int]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, sorted(nodes)))


def _answer(links: Links, line: bytes) -> bytes:
    try:
        state = LinkState.from_json(json.loads(line))
    except ValueError as error:
        return json.dumps({"ok": False, "error": str(error)}).encode() + b"\n"
    if state != links.state:
        log.warning("%s", in_words(state))
    links.set(state)
    return json.dumps({"ok": True, "links": state.to_json()}).encode() + b"\n"
