"""A raw copy over loopback to disk: the limit of any follower that catches up.

Two processes, as a leader and a follower are: one sends files, which are in the page cache, with `sendfile`, the other
receives and writes as many bytes to files of its own. No requests, no checks, nothing but the kernel.
"""

import multiprocessing
import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

CHUNK: Final = 1 << 20


def raw_copy(sources: Sequence[Path], target: Path) -> tuple[float, float]:
    """Seconds from the first byte asked for to the last one written, and the CPU seconds of both sides."""
    target.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")
    listener = socket.create_server(("127.0.0.1", 0))
    cpu_here, cpu_there = context.Pipe(duplex=False)
    sender = context.Process(target=_send, args=(listener, sources, cpu_there))
    sender.start()
    sizes = [source.stat().st_size for source in sources]
    before_s = _cpu_s()
    with listener, socket.create_connection(listener.getsockname()[:2]) as connection:
        began_s = now_s()
        connection.sendall(b"!")
        for number, size in enumerate(sizes):
            _receive(connection, target / str(number), size)
        took_s = now_s() - began_s
    cpu_s = _cpu_s() - before_s + float(cpu_here.recv())
    sender.join()
    for number in range(len(sizes)):
        (target / str(number)).unlink()
    return took_s, cpu_s


def _send(listener: socket.socket, sources: Sequence[Path], cpu: Connection) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1)
        before_s = _cpu_s()
        for source in sources:
            with source.open("rb") as file:
                position = 0
                while sent := os.sendfile(connection.fileno(), file.fileno(), position, CHUNK):
                    position += sent
        cpu.send(_cpu_s() - before_s)


def _receive(connection: socket.socket, path: Path, size: int) -> None:
    buffer = memoryview(bytearray(CHUNK))
    with path.open("wb", buffering=0) as file:
        left = size
        while left:
            received = connection.recv_into(buffer[: min(left, CHUNK)])
            if not received:
                raise ConnectionError("the sender is gone")
            file.write(buffer[:received])
            left -= received


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
