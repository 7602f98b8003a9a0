"""A page put together and served until it is told to stop."""

import socket
from collections.abc import Callable, Sequence

import uvicorn

from tidelog.cluster.layout import ClusterDir, ClusterLayout
from tidelog.web.app import Live, Page
from tidelog.web.audience import Audience
from tidelog.web.board import Board
from tidelog.web.guard import Guard
from tidelog.web.sources import Sources
from tidelog.web.trace import Playback
from tidelog.web.watching import Watching


def live_page(directory: ClusterDir, layout: ClusterLayout, now_ms: Callable[[], int]) -> Live:
    board = Board()
    audience = Audience(board)
    sources = Sources(directory, layout, Watching(board), now_ms=now_ms, changed=audience.changed)
    audience.sources = sources.run
    return Live(
        board=board, audience=audience, sources=sources, cluster_id=layout.cluster_id, bootstrap=layout.bootstrap
    )


async def serve(
    sockets: Sequence[socket.socket], *, token: str, live: Live | None = None, given: Playback | None = None
) -> None:
    """On sockets that listen already; all on one port."""
    guard = Guard(sockets[0].getsockname()[1], token)
    config = uvicorn.Config(
        Page(live, given).application(guard),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=128,
        timeout_graceful_shutdown=1,
    )
    await uvicorn.Server(config).serve(list(sockets))
