"""Real sockets, on asyncio's own loop and on uvloop: binding, free ports, and the same manners as in memory."""

import asyncio
import resource
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.unit.broker.toy_server import (
    Client,
    Toy,
    heartbeat_frame,
    metadata_frame,
)

from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.server import Listener, ListenError, Server
from tidelog.core.config.node import NodeConfig
from tidelog.wire.messages.metadata import MetadataResponse

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as running:
            running.run(main)

    return runner


async def started(host: str = "127.0.0.1", **limits: Any) -> tuple[Server, Toy, int]:
    toy = Toy()
    server = Server(ConnectionLimits(**limits))
    listener = await server.listen(Listener("PLAINTEXT", host, 0), toy.dispatch())
    return server, toy, listener.port


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_requests_are_served_and_order_kept(run: Run) -> None:
    async def story() -> None:
        server, toy, port = await started()
        client = await Client.connect(port=port)
        for number in range(100):
            await client.heartbeat(number)
        client.send(b"".join(heartbeat_frame(number) for number in range(1000)))
        assert [await client.correlation_id() for _ in range(1000)] == list(range(1000))
        await server.stop(5)
        assert toy.contexts[0].client_host == "127.0.0.1"

    run(story())


@pytest.mark.parametrize("host", ["localhost", ""])
def test_both_loopbacks_share_a_free_port(run: Run, host: str) -> None:
    async def story() -> None:
        server, _, port = await started(host)
        await (await Client.connect("127.0.0.1", port)).heartbeat(1)
        if has_ipv6():
            await (await Client.connect("::1", port)).heartbeat(2)
        assert server.listeners["PLAINTEXT"] == Listener("PLAINTEXT", host, port)
        await server.stop(5)

    run(story())


def test_a_port_in_use_is_one_line(run: Run) -> None:
    async def story() -> None:
        server, toy, port = await started()
        with pytest.raises(ListenError, match=rf"cannot listen on OTHER://127.0.0.1:{port}: .*in use"):
            await server.listen(Listener("OTHER", "127.0.0.1", port), toy.dispatch())
        await server.stop(5)

    run(story())


def test_several_listeners_have_their_own_names(run: Run) -> None:
    async def story() -> None:
        server, toy, port = await started()
        other = await server.listen(Listener("CONTROLLER", "127.0.0.1", 0), toy.dispatch())
        await (await Client.connect(port=other.port)).heartbeat(1)
        await (await Client.connect(port=port)).heartbeat(2)
        assert [context.listener_name for context in toy.contexts] == ["CONTROLLER", "PLAINTEXT"]
        assert server.port("CONTROLLER") == other.port
        await server.stop(5)

    run(story())


def test_shutdown_answers_then_closes(run: Run) -> None:
    async def story() -> None:
        server, toy, port = await started()
        client = await Client.connect(port=port)
        client.send(metadata_frame(1))
        while 1 not in toy.parked:
            await asyncio.sleep(0)
        stopping = asyncio.ensure_future(server.stop(30))
        await asyncio.sleep(0)
        toy.parked[1].set_result(MetadataResponse())
        assert await client.correlation_id() == 1
        assert await client.closed_by_server(30) == b""
        await stopping
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await Client.connect(port=port)

    run(story())


def test_a_client_that_vanishes_mid_request_is_noticed(run: Run) -> None:
    async def story() -> None:
        server, toy, port = await started()
        client = await Client.connect(port=port)
        client.send(metadata_frame(1))
        while 1 not in toy.parked:
            await asyncio.sleep(0)
        client.transport.abort()
        async with asyncio.timeout(30):
            while not toy.closed_clients:
                await asyncio.sleep(0)
        await server.stop(5)

    run(story())


def test_large_declared_lengths_cost_no_memory(run: Run) -> None:
    async def story() -> None:
        server, _, port = await started()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clients = [await Client.connect(port=port) for _ in range(50)]
        for client in clients:
            client.send(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
        good = await Client.connect(port=port)
        for number in range(20):
            await good.heartbeat(number)
        # Bytes that were declared: 5 GB.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
        for client in clients:
            client.close()
        await server.stop(5)

    run(story())


def test_a_reader_that_stops_stops_only_itself(run: Run) -> None:
    async def story() -> None:
        server, _, port = await started(write_high_bytes=65536)
        slow, good = await Client.connect(port=port), await Client.connect(port=port)
        slow.transport.pause_reading()
        flood = b"".join(heartbeat_frame(number) for number in range(1000))
        for _ in range(200):
            slow.send(flood)
        for number in range(200):
            await good.heartbeat(number)
        await server.stop(0.1)
        assert not server.network.connections

    run(story())


def test_limits_come_from_the_config() -> None:
    config, _ = NodeConfig.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "log.dirs": "/nowhere",
            "listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "socket.request.max.bytes": "12345",
            "connections.max.idle.ms": "-1",
            "max.connections.per.ip.overrides": "10.0.0.1:3",
            "queued.max.request.bytes": "77777",
        }
    )
    limits = ConnectionLimits.from_config(config)
    assert limits.max_request_bytes == 12345
    assert limits.max_idle_s == float("inf")
    assert limits.connections_allowed("10.0.0.1") == 3
    assert limits.connections_allowed("10.0.0.2") == 2**31 - 1
    assert limits.max_queued_bytes == 77777
    assert limits.frame_timeout_s == 30
    assert limits.max_in_flight == 100


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("", ("0.0.0.0", "::")),
        ("::", ("0.0.0.0", "::")),
        ("0.0.0.0", ("0.0.0.0",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("[::1]", ("::1",)),
        ("example", ("example",)),
    ],
)
def test_a_listener_is_one_address_or_two(host: str, addresses: tuple[str, ...]) -> None:
    assert Listener("PLAINTEXT", host, 9092).addresses() == addresses


def test_without_an_idle_limit_no_timer_runs(run: Run) -> None:
    async def story() -> None:
        server, _, port = await started(max_idle_s=float("inf"))
        await (await Client.connect(port=port)).heartbeat(1)
        await server.stop(5)

    run(story())
