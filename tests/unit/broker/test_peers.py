"""Connections between nodes: one per node and lane, opened when needed, opened again after anything."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from tests.unit.broker.toy_node import ToyNode
from tests.unit.broker.toy_server import in_virtual_time

from tidelog.broker.broker_dialler import dial
from tidelog.broker.links import node_client_id
from tidelog.broker.peers import Peers
from tidelog.client.addresses import Address
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ConnectionFailed, ConnectionRefused, RequestTimedOut
from tidelog.controller.fast_fence import DialOutcome
from tidelog.sim.loop import VirtualLoop
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.vote import VoteRequest, VoteResponse

PORT = 9093


def vote_or_park(parked: "list[asyncio.Future[FetchResponse]]") -> dict[type[Any], Callable[[Any], Any]]:
    """Votes are answered at once, fetches when the test says so."""

    def park(request: Any) -> "asyncio.Future[FetchResponse]":
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    return {VoteRequest: lambda request: VoteResponse(error_code=request.voter_id), FetchRequest: park}


class World:
    """Node 1, which asks, and node 2, which is asked."""

    def __init__(self) -> None:
        self.parked: list[asyncio.Future[FetchResponse]] = []
        self.node = ToyNode(vote_or_park(self.parked), {VoteRequest: (0, 1)})
        self.addresses: dict[int, Address] = {2: Address("127.0.0.1", PORT)}
        self.peers = Peers(asyncio.get_running_loop(), 1, address_of=self.addresses.get)

    async def vote(self, number: int = 0, lane: str = "", timeout_s: float = 5.0) -> int:
        response = await self.peers.request(2, VoteRequest(voter_id=number), lane=lane, timeout_s=timeout_s)
        assert isinstance(response, VoteResponse)
        return response.error_code


def test_requests_share_the_connection_of_their_lane() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        assert await asyncio.gather(*(world.vote(number) for number in range(20))) == list(range(20))
        assert world.node.connections == 1
        assert world.node.contexts[0].client_id == node_client_id(1) == "tidelog-node-1"
        # The newest that both speak.
        assert {ctx.api_version for ctx in world.node.contexts} == {1}
        await world.peers.close()
        await world.node.stop()

    in_virtual_time(story())


def test_a_parked_fetch_holds_up_nothing_on_another_lane() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        fetch = asyncio.ensure_future(world.peers.request(2, FetchRequest(), lane="fetch", timeout_s=60))
        while not world.parked:
            await asyncio.sleep(0)
        assert await world.vote(7) == 7
        assert world.node.connections == 2 and not fetch.done()
        world.parked[0].set_result(FetchResponse(session_id=5))
        assert (await fetch).session_id == 5
        await world.peers.close()
        await world.node.stop()

    in_virtual_time(story())


def test_a_node_that_is_not_there_and_comes() -> None:
    async def story() -> None:
        world = World()
        for _ in range(3):
            with pytest.raises(ConnectionRefused):
                await world.vote()
        await world.node.start(PORT)
        assert await world.vote(1) == 1
        await world.node.stop()
        with pytest.raises(ConnectionRefused):
            await world.vote()
        await world.node.start(PORT)
        assert await world.vote(2) == 2
        await world.peers.close()
        await world.node.stop()

    in_virtual_time(story())


def test_a_connection_that_breaks_fails_what_waits_and_not_what_comes() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        fetch = asyncio.ensure_future(world.peers.request(2, FetchRequest(), timeout_s=60))
        while not world.parked:
            await asyncio.sleep(0)
        world.peers.drop(2)
        with pytest.raises(ConnectionFailed, match="connection was closed"):
            await fetch
        assert await world.vote(1) == 1
        await world.peers.close()
        await world.node.stop()

    in_virtual_time(story())


def test_a_node_that_moves_is_found_at_its_new_address() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        await world.vote()
        moved = ToyNode({VoteRequest: lambda request: VoteResponse(error_code=99)})
        world.addresses[2] = await moved.start(PORT + 1)
        assert await world.vote() == 99
        del world.addresses[2]
        with pytest.raises(ConnectionFailed, match="the address of node 2 is unknown"):
            await world.vote()
        await world.peers.close()
        await world.node.stop()
        await moved.stop()

    in_virtual_time(story())


def test_no_answer_in_time_closes_the_connection() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        loop = asyncio.get_running_loop()
        with pytest.raises(RequestTimedOut):
            await world.peers.request(2, FetchRequest(), timeout_s=0.5)
        assert loop.time() == pytest.approx(0.5)
        assert await world.vote(3) == 3
        await world.peers.close()
        await world.node.stop()

    in_virtual_time(story())


def test_a_host_that_accepts_and_says_nothing() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", PORT)
        peers = Peers(loop, 1, address_of=lambda _: Address("127.0.0.1", PORT))
        with pytest.raises(RequestTimedOut, match="no connection to node 2 within 2 s"):
            await peers.request(2, VoteRequest(), timeout_s=2.0)
        assert loop.time() == pytest.approx(2.0)
        impatient = Peers(
            loop,
            1,
            address_of=lambda _: Address("127.0.0.1", PORT),
            settings=ConnectionSettings(connect_timeout_s=0.1),
        )
        with pytest.raises(ConnectionFailed, match="does not answer"):
            await impatient.request(2, VoteRequest(), timeout_s=2.0)
        await impatient.close()
        await peers.close()
        server.close()

    in_virtual_time(story())


def test_an_api_that_the_other_does_not_have_is_a_failed_request() -> None:
    async def story() -> None:
        world = World()
        await world.node.start(PORT)
        with pytest.raises(ConnectionFailed, match="has no DescribeQuorum API"):
            await world.peers.request(2, DescribeQuorumRequest(), timeout_s=1.0)
        await world.peers.close()
        with pytest.raises(ConnectionFailed, match="closing"):
            await world.vote()
        await world.node.stop()

    in_virtual_time(story())


def test_a_request_in_no_newer_version_than_asked_for() -> None:
    async def story() -> None:
        node = ToyNode({DescribeQuorumRequest: lambda _: DescribeQuorumResponse()})
        address = await node.start(PORT)
        peers = Peers(asyncio.get_running_loop(), 1, address_of=lambda _: address)
        await peers.request(2, DescribeQuorumRequest(), version=1, timeout_s=1.0)
        await peers.request(2, DescribeQuorumRequest(), timeout_s=1.0)
        assert [ctx.api_version for ctx in node.contexts] == [1, 2]
        await peers.close()
        await node.stop()

    in_virtual_time(story())


# --- dialling ---


@pytest.mark.rule("C2")
@pytest.mark.parametrize(
    "make", [asyncio.new_event_loop, uvloop.new_event_loop, VirtualLoop], ids=["asyncio", "uvloop", "memory"]
)
def test_dialling_tells_a_dead_process_from_a_silent_one(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            nobody = Address("127.0.0.1", holder.getsockname()[1])
            assert await dial(loop, nobody, 5.0) is DialOutcome.REFUSED
        # Whoever accepts lives, even if it would never answer.
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        somebody = Address(*server.sockets[0].getsockname())
        assert await dial(loop, somebody, 5.0) is DialOutcome.REACHED
        server.close()

    loop = make()
    loop.run_until_complete(story())
    loop.close()


@pytest.mark.rule("C2")
def test_a_network_that_swallows_everything_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()

        async def never(*arguments: Any, **options: Any) -> Any:
            await loop.create_future()

        monkeypatch.setattr(loop, "create_connection", never)
        assert await dial(loop, Address("10.0.0.1", 1), 0.3) is DialOutcome.SILENT
        assert loop.time() == pytest.approx(0.3)

        async def unreachable(*arguments: Any, **options: Any) -> Any:
            raise OSError(113, "No route to host")

        monkeypatch.setattr(loop, "create_connection", unreachable)
        assert await dial(loop, Address("10.0.0.1", 1), 0.3) is DialOutcome.SILENT

    in_virtual_time(story())
