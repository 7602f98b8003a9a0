"""Reads lines of standard input for an event loop, a bounded number of bytes ahead of it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from tidelog.cli.output import CommandFailed

_CHUNK_BYTES: Final = 256 * 1024
_CHUNKS_AHEAD: Final = 4


async def line_chunks(fd: int = 0) -> AsyncIterator[list[bytes]]:
    """Yields whole lines without their line ends, one list for each read, until the input ends.

    A daemon thread reads with `os.read`: ctrl-C must not wait for the next line, and a buffered reader would hold its
    lock while Python exits.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    # Bounds the queue: the thread reads a chunk only if there is room for it.
    room = threading.Semaphore(_CHUNKS_AHEAD)

    def read() -> None:
        chunk: bytes | OSError = b"not the end of the input"
        while chunk and not isinstance(chunk, OSError):
            room.acquire()
            try:
                chunk = os.read(fd, _CHUNK_BYTES)
            except OSError as error:
                chunk = error
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:
                return  # the loop is closed: the command has ended

    threading.Thread(target=read, name="stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise CommandFailed(f"cannot read standard input: {chunk.strerror}")
        room.release()
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]
