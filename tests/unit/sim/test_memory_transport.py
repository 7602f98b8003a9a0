"""Connections in memory behave like sockets: order, end of file, reset, refusal, back-pressure."""

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.loop import VirtualLoop, run


class Recorder(asyncio.Protocol):
    """Keeps everything that happens to it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = bytearray()
        self.log: list[str] = []
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.log.append("eof")
        return False

    def pause_writing(self) -> None:
        self.log.append("pause")

    def resume_writing(self) -> None:
        self.log.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class BufferedRecorder(asyncio.BufferedProtocol):
    def __init__(self, room: int) -> None:
        self.buffer = bytearray(room)
        self.data = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]


class Pair:
    """A connected client and server protocol."""

    def __init__(self, server: asyncio.BaseProtocol | None = None) -> None:
        self.loop = VirtualLoop()
        self.client = Recorder()
        self.server = server or Recorder()
        self.loop.run_until_complete(self.loop.create_server(lambda: self.server, "127.0.0.1", 9092))
        self.loop.run_until_complete(self.loop.create_connection(lambda: self.client, "127.0.0.1", 9092))
        self.loop.run_for(0)
        self.loop.run_for(0)

    @property
    def recorder(self) -> Recorder:
        assert isinstance(self.server, Recorder)
        return self.server

    @property
    def client_side(self) -> asyncio.Transport:
        assert self.client.transport is not None
        return self.client.transport

    @property
    def server_side(self) -> asyncio.Transport:
        assert self.recorder.transport is not None
        return self.recorder.transport

    def settle(self) -> None:
        self.loop.run_for(1)


@given(
    writes=st.lists(st.binary(max_size=300), max_size=30),
    room=st.integers(1, 100),
)
def test_bytes_arrive_in_order_through_any_buffer(writes: list[bytes], room: int) -> None:
    server = BufferedRecorder(room)
    pair = Pair(server)
    for data in writes:
        pair.client_side.write(data)
    pair.settle()
    assert bytes(server.data) == b"".join(writes)


def test_a_written_buffer_may_be_reused() -> None:
    pair = Pair()
    buffer = bytearray(b"first")
    pair.client_side.writelines([buffer, memoryview(buffer)])
    buffer[:] = b"other"
    pair.settle()
    assert pair.recorder.data == b"firstfirst"


def test_closing_delivers_what_was_written_and_then_the_end() -> None:
    pair = Pair()
    pair.client_side.write(b"x" * 200_000)
    pair.client_side.close()
    pair.settle()
    assert len(pair.recorder.data) == 200_000
    assert pair.recorder.log == ["eof"]
    assert pair.recorder.lost == [None]
    assert pair.client.lost == [None]


def test_writing_after_closing_is_dropped_and_after_an_end_of_file_a_mistake() -> None:
    pair = Pair()
    pair.server_side.write_eof()
    with pytest.raises(RuntimeError):
        pair.server_side.write(b"more")
    pair.client_side.close()
    pair.client_side.write(b"nobody minds")
    pair.settle()
    assert pair.recorder.data == b""


def test_half_close_leaves_the_other_direction_open() -> None:
    async def main() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read()).upper())
            writer.close()

        await asyncio.start_server(serve, "::1", 1)
        reader, writer = await asyncio.open_connection("localhost", 1)
        writer.write(b"hello")
        writer.write_eof()
        return await reader.read()

    assert run(main()) == b"HELLO"


def test_abort_resets_the_other_side() -> None:
    pair = Pair()
    pair.client_side.write(b"never read")
    pair.client_side.abort()
    pair.settle()
    assert pair.client.lost == [None]
    assert isinstance(pair.recorder.lost[0], ConnectionResetError)


def test_writing_to_a_closed_socket_is_a_reset() -> None:
    pair = Pair()
    pair.client_side.pause_reading()
    pair.server_side.close()
    pair.client_side.write(b"too late")
    pair.settle()
    assert isinstance(pair.client.lost[0], ConnectionResetError)


def test_a_reader_that_pauses_stops_the_writer() -> None:
    pair = Pair()
    pair.client_side.set_write_buffer_limits(high=1000)
    pair.server_side.pause_reading()
    pair.client_side.write(b"a" * 1001)
    pair.settle()
    assert pair.client.log == ["pause"]
    assert pair.recorder.data == b""
    pair.server_side.resume_reading()
    pair.settle()
    assert pair.client.log == ["pause", "resume"]
    assert len(pair.recorder.data) == 1001


def test_nobody_there_is_a_refusal() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", 9092)
        server = await loop.create_server(Recorder, "127.0.0.1", 9092)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Recorder, "127.0.0.1", 9092)
        await loop.create_connection(Recorder, "127.0.0.1", 9092)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", 9092)

    run(main())


def test_free_ports_and_wildcards() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        first = await loop.create_server(Recorder, "0.0.0.0", 0)
        second = await loop.create_server(Recorder, "0.0.0.0", 0)
        ports = [server.sockets[0].getsockname()[1] for server in (first, second)]
        assert ports[0] != ports[1]
        transport, _ = await loop.create_connection(Recorder, "10.1.2.3", ports[0])
        assert transport.get_extra_info("peername") == ("10.1.2.3", ports[0])

    run(main())
