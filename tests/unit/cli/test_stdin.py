"""Lines out of a file descriptor."""

import asyncio
import os
import threading

import pytest

from tidelog.cli.output import CommandFailed
from tidelog.cli.stdin import line_chunks


async def read_all(fd: int) -> list[bytes]:
    return [line async for chunk in line_chunks(fd) for line in chunk]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\nlast", [b"a", b"", b"last"]),
        (b"x" * 3_000_000 + b"\n" + b"y\n" * 10, [b"x" * 3_000_000] + [b"y"] * 10),
    ],
)
def test_lines_come_whole_however_large(text: bytes, lines: list[bytes]) -> None:
    read_end, write_end = os.pipe()

    def write() -> None:
        with os.fdopen(write_end, "wb") as writer:
            writer.write(text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert asyncio.run(read_all(read_end)) == lines
    finally:
        writer.join()
        os.close(read_end)


def test_input_that_cannot_be_read_is_one_line() -> None:
    read_end, write_end = os.pipe()
    try:
        with pytest.raises(CommandFailed, match="cannot read standard input: Bad file descriptor"):
            asyncio.run(read_all(write_end))
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_writer_is_held_back_while_nobody_takes_its_lines() -> None:
    """What is read ahead is bounded, so a fast producer of lines waits in its own write."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    written = 0

    async def story() -> None:
        nonlocal written
        chunks = line_chunks(read_end)
        os.write(write_end, b"first\n")
        assert await anext(chunks) == [b"first"]
        for _ in range(200):
            try:
                written += os.write(write_end, b"z" * 65536)
            except BlockingIOError:
                # The reader may still be about to take some: look until it has stopped.
                await asyncio.sleep(0.001)

    try:
        asyncio.run(story())
    finally:
        os.close(write_end)
        os.close(read_end)
    assert written < 5 * 256 * 1024 + 2 * 65536
