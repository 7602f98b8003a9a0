"""A blocking client of one connection, for tests that choose every byte: any API, any version."""

import socket
import struct
from typing import Any, Self

from tidelog.wire.codec import RESPONSE_LIMITS, encode_frame, read_message
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of


class WireClient:
    """Sends requests as they are given and reads their responses; ConnectionError when the broker closes."""

    def __init__(self, bootstrap: str, timeout_s: float = 30.0) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> int:
        key = spec_of(type(request)).api_key
        self._correlation_id += 1
        header = write_request_header(key, version, self._correlation_id, "wire-client")
        self.socket.sendall(b"".join(encode_frame(request, version, header)))
        return self._correlation_id

    def receive(self, key: int, version: int) -> Any:
        frame = memoryview(self.receive_frame())
        correlation_id, position = read_response_header(key, version, frame)
        assert correlation_id == self._correlation_id
        return read_message(APIS[key].response, version, frame, position=position, limits=RESPONSE_LIMITS)

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(spec_of(type(request)).api_key, version)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            received = self.socket.recv(size - len(parts))
            if not received:
                raise ConnectionError("the broker closed the connection")
            parts += received
        return bytes(parts)

    def assert_closed(self) -> None:
        """The broker hangs up without another byte."""
        try:
            assert self.socket.recv(1) == b""
        except ConnectionResetError:
            return
