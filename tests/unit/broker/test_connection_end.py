"""Who ended a connection, the client or we: on real sockets, where a reset is not an end of file."""

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest
import uvloop
from tests.unit.broker.toy_server import Client, Toy, metadata_frame

from tidelog.broker.dispatch import ClientConnection
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.server import Listener, Server
from tidelog.wire.messages.metadata import MetadataResponse

# Closing sends a reset instead of an end of file.
RESET = struct.pack("ii", 1, 0)


async def ended_by_peer(how: str) -> bool:
    toy = Toy()
    server = Server(ConnectionLimits())
    bound = await server.listen(Listener("PLAINTEXT", "127.0.0.1", 0), toy.dispatch())
    client = await Client.connect("127.0.0.1", bound.port)
    await client.heartbeat(1)
    connection: ClientConnection = toy.contexts[0].connection
    gone = asyncio.Event()
    connection.on_close(gone.set)
    if how == "reset":
        raw: socket.socket = client.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    if how in ("end of file", "reset"):
        client.transport.abort()
    elif how == "half closed":
        client.transport.write_eof()
    elif how == "nonsense":
        client.send(b"\0\0\0\4nope")
    else:
        await server.stop(5.0)
    async with asyncio.timeout(10):
        await gone.wait()
    client.close()
    await server.stop(0.0)
    return connection.ended_by_peer


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("how", "by_peer"),
    [("end of file", True), ("reset", True), ("half closed", True), ("nonsense", False), ("stopped", False)],
)
def test_who_ended_it(make: Callable[[], asyncio.AbstractEventLoop], how: str, by_peer: bool) -> None:
    loop = make()
    try:
        assert loop.run_until_complete(ended_by_peer(how)) is by_peer
    finally:
        loop.close()


async def half_closed_while_two_wait() -> list[int]:
    """The client has said all it has to say, and waits for two answers, one behind the other."""
    toy = Toy()
    server = Server(ConnectionLimits())
    bound = await server.listen(Listener("PLAINTEXT", "127.0.0.1", 0), toy.dispatch())
    client = await Client.connect("127.0.0.1", bound.port)
    client.send(metadata_frame(1) + metadata_frame(2))
    client.transport.write_eof()
    answered = []
    async with asyncio.timeout(10):
        for number in (1, 2):
            while number not in toy.parked:
                await asyncio.sleep(0.001)
            toy.parked[number].set_result(MetadataResponse())
            answered.append(await client.correlation_id())
        # It is closed then, and not only when it has been idle for ten minutes.
        assert await client.reader.read() == b""
    client.close()
    await server.stop(0.0)
    return answered


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_one_that_its_client_has_ended_is_closed_when_all_is_answered(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    loop = make()
    try:
        assert loop.run_until_complete(half_closed_while_two_wait()) == [1, 2]
    finally:
        loop.close()
