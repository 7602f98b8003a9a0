"""Faults between nodes: silent, in one direction or both, and everything flows again when they are healed."""

import asyncio

import pytest
from tests.unit.broker.toy_server import in_virtual_time

from tidelog.broker.dispatch import Dispatch, RequestContext, route
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.links import Links, LinkState, node_client_id, node_of_client_id
from tidelog.broker.links_control import in_words
from tidelog.broker.peers import Peers
from tidelog.broker.server import Listener, Server
from tidelog.client.addresses import Address
from tidelog.client.connection import Connection
from tidelog.client.errors import RequestTimedOut
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.vote import VoteRequest, VoteResponse

ADDRESS = Address("127.0.0.1", 9093)
APIS = [ApiVersion(api_key=18, min_version=0, max_version=4), ApiVersion(api_key=52, min_version=0, max_version=2)]
CUT = LinkState(deaf=frozenset({1}), mute=frozenset({1}))


class World:
    """Node 1 asks node 2. Each has links of its own; a client talks to node 2 as well."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.one, self.two = Links(self.loop), Links(self.loop)
        self.heard: list[int] = []
        self.server = Server(ConnectionLimits(), links=self.two)
        self.peers = Peers(self.loop, 1, address_of=lambda _: ADDRESS, links=self.one)

    async def start(self) -> None:
        routes = [route(18, lambda _, request: ApiVersionsResponse(api_keys=APIS)), route(52, self._vote)]
        await self.server.listen(Listener("CONTROLLER", *ADDRESS), Dispatch(routes))

    def _vote(self, _: RequestContext, request: VoteRequest) -> VoteResponse:
        self.heard.append(request.voter_id)
        return VoteResponse(error_code=request.voter_id)

    async def ask(self, number: int, timeout_s: float = 60.0) -> int:
        answer: VoteResponse = await self.peers.request(2, VoteRequest(voter_id=number), timeout_s=timeout_s)
        return answer.error_code


def test_a_cut_holds_what_is_under_way_and_lets_it_go_when_healed() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        assert await world.ask(1) == 1
        world.two.set(CUT)
        asking = asyncio.ensure_future(world.ask(2))
        await asyncio.sleep(30)
        assert world.heard == [1] and not asking.done()
        world.two.set(LinkState())
        assert await asking == 2

    in_virtual_time(story())


def test_a_connect_through_a_cut_hangs_on_either_side() -> None:
    async def story(side: str) -> None:
        world = World()
        await world.start()
        links = world.one if side == "one" else world.two
        links.set(LinkState(deaf=frozenset({2, 1}), mute=frozenset({2, 1})))
        asking = asyncio.ensure_future(world.ask(1))
        await asyncio.sleep(5)
        assert not asking.done() and world.heard == []
        links.set(LinkState())
        assert await asking == 1

    in_virtual_time(story("one"))
    in_virtual_time(story("two"))


def test_one_direction_alone_can_be_cut() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        assert await world.ask(1) == 1
        # Node 2 hears node 1, and cannot answer it.
        world.two.set(LinkState(mute=frozenset({1})))
        asking = asyncio.ensure_future(world.ask(2))
        await asyncio.sleep(5)
        assert world.heard == [1, 2] and not asking.done()
        world.two.set(LinkState())
        assert await asking == 2
        # Node 1 is not heard.
        world.two.set(LinkState(deaf=frozenset({1})))
        asking = asyncio.ensure_future(world.ask(3))
        await asyncio.sleep(5)
        assert world.heard == [1, 2] and not asking.done()
        world.two.set(LinkState())
        assert await asking == 3

    in_virtual_time(story())


def test_clients_do_not_notice() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        world.two.set(CUT)
        client = await Connection.open(ADDRESS)
        assert (await client.request(VoteRequest(voter_id=7), VoteResponse)).error_code == 7
        await client.close()

    in_virtual_time(story())


def test_what_is_given_up_behind_a_cut_is_told_when_it_is_healed() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        assert await world.ask(1) == 1
        world.one.set(LinkState(deaf=frozenset({2}), mute=frozenset({2})))
        with pytest.raises(RequestTimedOut):
            await world.ask(2, timeout_s=1.0)
        await asyncio.sleep(1)
        assert len(world.server.network.connections) == 1, "no FIN and no RST has come"
        world.one.set(LinkState())
        await asyncio.sleep(0.1)
        assert len(world.server.network.connections) == 0
        assert await world.ask(3) == 3
        assert world.heard == [1, 3], "the request of the connection that was given up is gone with it"

    in_virtual_time(story())


def test_slow_answers_keep_their_order() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        assert await world.ask(1) == 1
        world.two.set(LinkState(delay_s=0.2))
        before = world.loop.time()
        assert await asyncio.gather(*(world.ask(number) for number in range(10))) == list(range(10))
        assert 0.2 <= world.loop.time() - before < 2.5
        world.two.set(LinkState())
        before = world.loop.time()
        assert await world.ask(5) == 5
        assert world.loop.time() - before < 0.1

    in_virtual_time(story())


def test_a_writer_behind_a_cut_is_told_to_wait() -> None:
    async def story() -> None:
        world = World()
        await world.start()
        assert await world.ask(1) == 1
        world.one.set(LinkState(mute=frozenset({2})))
        asking = [asyncio.ensure_future(world.ask(2)) for _ in range(200)]
        await asyncio.sleep(1)
        assert world.heard == [1]
        world.one.set(LinkState())
        assert await asyncio.gather(*asking) == [2] * 200

    in_virtual_time(story())


class _ClosedByPeer(asyncio.Transport):
    """Refuses to write, as uvloop's does once the peer has closed the connection."""

    closed = False

    def is_closing(self) -> bool:
        return self.closed

    def writelines(self, list_of_data: object) -> None:
        raise RuntimeError("the handler is closed")

    def close(self) -> None:
        self.closed = True


class _Held(asyncio.Protocol):
    pass


def test_delayed_bytes_are_dropped_when_the_peer_closes_the_connection() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        failures: list[object] = []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        links = Links(loop)
        links.set(LinkState(delay_s=0.2))
        transport = _ClosedByPeer()
        link = links.through(2, transport, _Held())
        link.write(b"late")
        transport.closed = True
        await asyncio.sleep(1)
        # Another link is healed although this one cannot be written to.
        links.set(LinkState())
        assert failures == []

    in_virtual_time(story())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (LinkState(), "links to other nodes: no faults"),
        (LinkState(deaf=frozenset({1})), "links to other nodes: messages from node 1 are dropped"),
        (
            LinkState(mute=frozenset({3, 1}), delay_s=0.3),
            "links to other nodes: messages to nodes 1, 3 are dropped, messages to other nodes are delayed by 300 ms",
        ),
    ],
)
def test_the_log_names_the_faults_of_links(state: LinkState, words: str) -> None:
    assert in_words(state) == words


@pytest.mark.parametrize(
    ("client_id", "node"),
    [("tidelog-node-12", 12), (node_client_id(3), 3), ("tidelog-node-", None), ("rdkafka", None), (None, None)],
)
def test_a_node_is_known_by_its_client_id(client_id: str | None, node: int | None) -> None:
    assert node_of_client_id(client_id) == node


@pytest.mark.parametrize("data", [[], {"deaf": "1", "mute": [], "delay_ms": 0}, {"deaf": [], "mute": []}])
def test_what_is_no_state_of_links_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"is a|are a"):
        LinkState.from_json(data)
