"""Who looks at the page: streams that are woken when the board changes, and sources that run only while one is open."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tidelog.client.news import News
from tidelog.web.board import Board

# What happens within this time travels together.
GATHER_S: Final = 0.03
# A reader that hears nothing for so long is told the time: a browser that is gone is found out by that.
QUIET_S: Final = 10.0
MOST_STREAMS: Final = 32
# A page that is loaded anew should not have everything begin again.
LINGER_S: Final = 3.0


class Audience:
    """`sources` runs from the first stream on until some time after the last."""

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
        """Server-sent events: first everything, then what is new.

        Nothing is kept for a reader that does not read: it waits at the `yield`, and then gets what is so by then.
        """
        cursor = 0
        is_quiet = False
        with self._open() as news:
            while True:
                if cursor != self._board.version or is_quiet:
                    told = self._board.changes(cursor)
                    cursor = told["version"]
                    yield b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"
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
