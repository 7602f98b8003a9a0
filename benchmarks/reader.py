"""Reads a topic's undecoded Fetch bytes as fast as a socket gives them, and the same amount as a raw loopback copy."""

import os
import socket
import struct
import threading
import time
from pathlib import Path

from tidelog.wire.codec import RESPONSE_LIMITS, encode_frame, read_message
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.records.batch import iter_headers

VERSION = 12
RECEIVE = 1 << 20


def fetch_all(bootstrap: str, topic: str, end_offset: int, max_bytes: int = 8 << 20) -> tuple[float, int]:
    """(seconds, record bytes) to read partition 0 from the start to `end_offset`."""
    host, port = bootstrap.rsplit(":", 1)
    offset = 0
    total = 0
    buffer = bytearray(max_bytes + (1 << 20))
    with socket.create_connection((host, int(port))) as connection:
        started = time.perf_counter()  # noqa: TID251 - measuring is what this is for
        while offset < end_offset:
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=max_bytes,
                topics=[
                    FetchTopic(
                        topic=topic,
                        partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)],
                    )
                ],
            )
            connection.sendall(b"".join(encode_frame(request, VERSION, write_request_header(1, VERSION, 1, "bench"))))
            frame = _receive(connection, buffer)
            _, position = read_response_header(1, VERSION, frame)
            response = read_message(FetchResponse, VERSION, frame, position=position, limits=RESPONSE_LIMITS)
            records = response.responses[0].partitions[0].records
            assert records, response
            total += len(records)
            for _, header in iter_headers(memoryview(records)):
                offset = header.next_offset
        return time.perf_counter() - started, total  # noqa: TID251


def _receive(connection: socket.socket, buffer: bytearray) -> memoryview:
    view = memoryview(buffer)
    _fill(connection, view[:4])
    (size,) = struct.unpack_from(">i", view, 0)
    _fill(connection, view[:size])
    return view[:size]


def _fill(connection: socket.socket, view: memoryview) -> None:
    while len(view):
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("the broker closed the connection")
        view = view[received:]


def loopback_copy(path: Path, size: int) -> float:
    """Seconds to read `size` bytes of a cached file, send and receive them over loopback: the limit of any reader."""
    listener = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        connection, _ = listener.accept()
        with connection, path.open("rb") as source:
            left = size
            while left:
                chunk = os.pread(source.fileno(), min(left, 8 << 20), size - left)
                connection.sendall(chunk)
                left -= len(chunk)

    sender = threading.Thread(target=send)
    sender.start()
    buffer = bytearray(RECEIVE)
    with listener, socket.create_connection(listener.getsockname()[:2]) as connection:
        started = time.perf_counter()  # noqa: TID251
        left = size
        while left:
            left -= connection.recv_into(buffer)
        took = time.perf_counter() - started  # noqa: TID251
    sender.join()
    return took
