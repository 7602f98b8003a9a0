"""The open pages: streams that wake when the board changes, and sources that run only while a page is open."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tidelog.client.news import News
from tidelog.web.board import Board

# Changes within this time are sent together.
GATHER_S: Final = 0.03
# A quiet stream sends the time this often: the write fails after the browser has left.
QUIET_S: Final = 10.0
MOST_STREAMS: Final = 32
# A page that reloads within this time finds the sources still running.
LINGER_S: Final = 3.0


class Audience:
    """Runs `sources` from the first stream until shortly after the last one."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.sources: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._streams: set[News] = set()

    @property
    def is_full(self) -> bool:
        return len(self._streams) >= MOST_STREAMS

    def changed(self) -> None:
        for stream in self._streams:
            stream.tell()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yields server-sent events: the whole board first, then each change.

        A slow reader costs nothing: the stream waits at `yield`, and then sends the difference to the current board.
        """
        cursor = 0
        is_quiet = False
        with self._open() as news:
            while True:
                if cursor != self._board.version or is_quiet:
                    changes = self._board.changes(cursor)
                    cursor = changes["version"]
                    yield b"data: " + json.dumps(changes, separators=(",", ":")).encode() + b"\n\n"
                try:
                    is_quiet = False
                    async with asyncio.timeout(QUIET_S):
                        await news.wait()
                except TimeoutError:
                    is_quiet = True

    @contextmanager
    def _open(self) -> Iterator[News]:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._running is None and self.sources is not None:
            self._running = asyncio.create_task(self.sources(), name="sources")
        news = News(GATHER_S)
        self._streams.add(news)
        try:
            yield news
        finally:
            self._streams.discard(news)
            if not self._streams:
                self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._end)

    def _end(self) -> None:
        self._ending = None
        if self._running is not None and not self._streams:
            self._running.cancel()
            self._running = None
