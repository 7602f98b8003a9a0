"""Builds the page and serves it until a signal stops it."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

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
    """Serves on listening sockets, all of one port, until SIGINT or SIGTERM."""
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
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.end)
    await server.serve(list(sockets))


class _Server(uvicorn.Server):
    """Exits cleanly after a signal. Without this, uvicorn raises the signal again after its shutdown."""

    def end(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
