"""How a supervisor sets the links of its node: a line of JSON each way over a socket that the node inherits.

-> {"deaf": [1, 3], "mute": [1, 3], "delay_ms": 0}
<- {"ok": true}
"""

import asyncio
import json
import logging
import socket
from typing import Final

from tidelog.broker.links import Links, LinkState

log = logging.getLogger("tidelog.links")

_MAX_LINE_BYTES: Final = 64 * 1024


async def obey(links: Links, fd: int) -> None:
    """Until the supervisor is gone; then everything is whole again, since nobody is left to heal it."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=fd), limit=_MAX_LINE_BYTES)
    try:
        while line := await reader.readline():
            writer.write(_answer(links, line))
            await writer.drain()
    except (ConnectionError, ValueError) as error:
        log.warning("the supervisor's line is closed: %s", error)
    finally:
        links.set(LinkState())
        writer.close()


def _answer(links: Links, line: bytes) -> bytes:
    try:
        state = LinkState.from_json(json.loads(line))
    except ValueError as error:
        return json.dumps({"ok": False, "error": str(error)}).encode() + b"\n"
    if state != links.state:
        log.warning(
            "links: hears nothing of nodes %s, says nothing to nodes %s, %g ms late",
            sorted(state.deaf),
            sorted(state.mute),
            1000 * state.delay_s,
        )
    links.set(state)
    return b'{"ok": true}\n'
