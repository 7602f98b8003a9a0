"""Nobody listens there: told apart from every other way of not getting a connection, on each kind of loop."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from tests.unit.client.toy_broker import CLOSE, ToyBroker

from tidelog.client.addresses import Address
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import ConnectionFailed, ConnectionRefused, is_refused
from tidelog.sim.loop import VirtualLoop
from tidelog.wire.messages.api_versions import ApiVersionsRequest

PATIENT = ConnectionSettings(connect_timeout_s=5.0)


@pytest.fixture
def free_port() -> Iterator[int]:
    """Bound and not listened on: nobody else can get it while the test runs."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture(
    params=[asyncio.new_event_loop, uvloop.new_event_loop, VirtualLoop], ids=["asyncio", "uvloop", "memory"]
)
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: Callable[[], asyncio.AbstractEventLoop] = request.param
    loop = made()
    yield loop
    loop.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_nobody_has(loop: asyncio.AbstractEventLoop, free_port: int, host: str) -> None:
    address = Address(host, free_port)
    with pytest.raises(ConnectionRefused, match=f"cannot connect to {address}: connection refused"):
        loop.run_until_complete(Connection.open(address, PATIENT))


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_who_accepts_and_hangs_up_is_there(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> None:
        async with ToyBroker().serving() as broker:
            broker.on(ApiVersionsRequest, lambda request, _: CLOSE)
            with pytest.raises(ConnectionFailed) as caught:
                await Connection.open(broker.address, PATIENT)
            assert not isinstance(caught.value, ConnectionRefused)

    loop = make()
    loop.run_until_complete(story())
    loop.close()


async def test_a_name_with_several_addresses_that_all_refuse(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve_to(monkeypatch, [("127.0.0.1", free_port), ("127.0.0.2", free_port)])
    with pytest.raises(ConnectionRefused):
        await Connection.open(Address("several.test", free_port), PATIENT)


async def test_a_name_of_which_one_address_cannot_be_reached(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing routes to a broadcast address: the connect fails at once, and not by a refusal.
    _resolve_to(monkeypatch, [("127.0.0.1", free_port), ("255.255.255.255", free_port)])
    with pytest.raises(ConnectionFailed) as caught:
        await Connection.open(Address("several.test", free_port), PATIENT)
    assert not isinstance(caught.value, ConnectionRefused)


def _resolve_to(monkeypatch: pytest.MonkeyPatch, addresses: list[tuple[str, int]]) -> None:
    async def getaddrinfo(*arguments: Any, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call"), True),
        (OSError("Multiple exceptions: [Errno 111] Connection refused, [Errno 110] Connection timed out"), False),
        (OSError("Multiple exceptions: nothing that anybody knows"), False),
        (OSError(113, "No route to host"), False),
        (socket.gaierror(-2, "Name or service not known"), False),
        (OSError("said of [Errno 111] by somebody else"), False),
    ],
)
def test_only_refusals_by_every_address_count(error: OSError, refused: bool) -> None:
    assert is_refused(error) is refused
