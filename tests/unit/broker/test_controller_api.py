"""What the controller's listener does with a request, over a quorum and a controller that a test plays."""

import asyncio
from collections.abc import Hashable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.toy_server import Client, in_virtual_time, request_frame

from tidelog.broker.api.table import CONTROLLER_APIS, quorum_dispatch
from tidelog.broker.controller_api.metadata_fetch import MAX_WAIT_MS
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.server import Listener, Server
from tidelog.controller.failures import is_not_controller
from tidelog.core.ids import METADATA_TOPIC_ID
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

PORT = 9093
ENDPOINTS = {1: ("10.0.0.1", 9093), 2: ("10.0.0.2", 9093)}


class Raft:
    leader_id = 2
    voters = VoterSet.of(Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3))

    def endpoint(self, node_id: int) -> tuple[str, int] | None:
        return ENDPOINTS.get(node_id)


class Quorum:
    """Answers with an empty response, or keeps the request until the test answers it."""

    def __init__(self) -> None:
        self.raft = Raft()
        self.received: list[tuple[int, Any]] = []
        self.parks = False
        self.parked: list[asyncio.Future[Any]] = []

    async def receive(self, source: int, request: Any) -> Any:
        self.received.append((source, request))
        if self.parks:
            self.parked.append(asyncio.get_running_loop().create_future())
            return await self.parked[-1]
        return APIS[spec_of(type(request)).api_key].response()


class Controller:
    """Says yes to everything but a heartbeat with `refuses`, and writes down what it hears."""

    def __init__(self) -> None:
        self.refuses = ErrorCode.NONE
        self.timeouts_ms: list[int] = []
        self.heard: list[tuple[Hashable, int, int]] = []
        self.lost: list[Hashable] = []
        self.closed: list[Hashable] = []

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        self.timeouts_ms.append(timeout_ms)
        if isinstance(request, BrokerHeartbeatRequest):
            return BrokerHeartbeatResponse(error_code=self.refuses)
        return APIS[spec_of(type(request)).api_key].response()

    def heartbeat_heard(self, connection: Hashable, broker_id: int, epoch: int) -> None:
        self.heard.append((connection, broker_id, epoch))

    def connection_lost(self, connection: Hashable) -> None:
        self.lost.append(connection)

    def connection_closed(self, connection: Hashable) -> None:
        self.closed.append(connection)


class World:
    def __init__(self, *, with_controller: bool = True) -> None:
        self.quorum = Quorum()
        self.controller = Controller()
        self.services = ControllerServices(
            node_id=1,
            cluster_id="a-cluster",
            quorum=self.quorum,
            controller=self.controller if with_controller else None,
            image=lambda: EMPTY_IMAGE,
        )
        self.server = Server(ConnectionLimits(max_idle_s=60.0))
        self._correlation_id = 0

    async def client(self) -> Client:
        if not self.server.listeners:
            await self.server.listen(Listener("CONTROLLER", "127.0.0.1", PORT), quorum_dispatch(self.services))
        return await Client.connect(port=PORT)

    def send(self, client: Client, request: Any, version: int) -> None:
        self._correlation_id += 1
        key = spec_of(type(request)).api_key
        client.send(request_frame(key, version, self._correlation_id, request, client_id="tidelog-node-7"))

    async def call(self, client: Client, request: Any, version: int) -> Any:
        self.send(client, request, version)
        return (await client.response(spec_of(type(request)).api_key, version))[1]

    async def beat(self, client: Client, broker_id: int = 7, epoch: int = 70) -> None:
        await self.call(client, BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch), 1)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# --- heartbeats and the end of their connections ---


@pytest.mark.rule("C2")
@pytest.mark.parametrize("how", ["end of file", "reset"])
def test_a_broker_that_goes_away_is_missed(how: str) -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        for _ in range(3):
            await world.beat(client)
        assert [(broker, epoch) for _, broker, epoch in world.controller.heard] == [(7, 70)] * 3
        assert len({connection for connection, _, _ in world.controller.heard}) == 1
        if how == "reset":
            client.transport.abort()
        else:
            client.close()
        await turns()
        assert world.controller.lost == [world.controller.heard[0][0]]
        assert world.controller.closed == [] and not world.services.heartbeat_connections
        await world.server.stop(0.0)

    in_virtual_time(story())


@pytest.mark.rule("C2")
@pytest.mark.parametrize("how", ["idle", "finished", "cut", "nonsense"])
def test_a_connection_that_is_ended_here_says_nothing_of_the_broker(how: str) -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        await world.beat(client)
        if how == "idle":
            await asyncio.sleep(61.0)
        elif how == "finished":
            await world.server.stop(1.0)
        elif how == "cut":
            # A request under way keeps the connection until the deadline.
            world.quorum.parks = True
            world.send(client, metadata_fetch(), 17)
            await turns()
            await world.server.stop(0.5)
        else:
            client.send(b"\0\0\0\4nope")
        await turns()
        assert (world.controller.lost, len(world.controller.closed)) == ([], 1)
        await world.server.stop(0.0)

    in_virtual_time(story())


def test_a_refused_heartbeat_is_no_sign_of_life() -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        world.controller.refuses = ErrorCode.STALE_BROKER_EPOCH
        await world.beat(client)
        client.close()
        await turns()
        assert world.controller.heard == world.controller.lost == world.controller.closed == []
        await world.server.stop(0.0)

    in_virtual_time(story())


def test_a_connection_without_heartbeats_is_nobody_s() -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        await world.call(client, metadata_fetch(), 17)
        client.close()
        await turns()
        assert world.controller.lost == world.controller.closed == []
        await world.server.stop(0.0)

    in_virtual_time(story())


# --- the quorum's requests ---


def metadata_fetch(topic_id: UUID = METADATA_TOPIC_ID, wait_ms: int = 500) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(replica_id=7),
        max_wait_ms=wait_ms,
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0), FetchPartition(partition=1)])],
    )


def test_a_fetch_is_the_quorum_s_and_waits_no_longer_than_is_sensible() -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        await world.call(client, metadata_fetch(), 18)
        await world.call(client, metadata_fetch(wait_ms=2**31 - 1), 17)
        assert [source for source, _ in world.quorum.received] == [7, 7]
        assert [request.max_wait_ms for _, request in world.quorum.received] == [500, MAX_WAIT_MS]
        await world.server.stop(0.0)

    in_virtual_time(story())


def test_a_fetch_of_any_other_topic_finds_none() -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        response = await world.call(client, metadata_fetch(UUID(int=999)), 17)
        partitions = response.responses[0].partitions
        assert [each.error_code for each in partitions] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert world.quorum.received == []
        await world.server.stop(0.0)

    in_virtual_time(story())


def test_nobody_waits_for_a_parked_request_whose_sender_is_gone() -> None:
    async def story() -> None:
        world = World()
        world.quorum.parks = True
        client = await world.client()
        world.send(client, metadata_fetch(), 17)
        await turns()
        client.close()
        await turns()
        assert world.quorum.parked[0].cancelled()
        # Others are answered as ever, once.
        other = await world.client()
        world.send(other, metadata_fetch(), 17)
        await turns()
        world.quorum.parked[1].set_result(FetchResponse(session_id=3))
        assert (await other.response(1, 17))[1].session_id == 3
        await world.server.stop(0.0)

    in_virtual_time(story())


# --- DescribeCluster ---


def test_a_controller_describes_the_controllers() -> None:
    async def story() -> None:
        world = World()
        client = await world.client()
        response = await world.call(client, DescribeClusterRequest(endpoint_type=2), 1)
        assert (response.error_code, response.endpoint_type) == (ErrorCode.NONE, 2)
        assert (response.cluster_id, response.controller_id) == ("a-cluster", 2)
        # Nobody knows where the third is.
        assert [(each.broker_id, (each.host, each.port)) for each in response.brokers] == list(ENDPOINTS.items())
        for version, endpoint_type, error in (
            (0, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (1, 1, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (1, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            refused = await world.call(client, DescribeClusterRequest(endpoint_type=endpoint_type), version)
            assert (refused.error_code, refused.brokers) == (error, [])
        await world.server.stop(0.0)

    in_virtual_time(story())


# --- all of them ---

EVERY_VERSION = [(key, version) for key, low, high, _ in CONTROLLER_APIS for version in range(low, high + 1)]


@pytest.mark.parametrize("with_controller", [True, False], ids=["controller", "no controller"])
def test_every_version_is_answered(with_controller: bool) -> None:
    async def story() -> None:
        world = World(with_controller=with_controller)
        client = await world.client()
        for key, version in EVERY_VERSION:
            assert await world.call(client, APIS[key].request(), version) is not None, APIS[key].name
        await world.server.stop(0.0)

    in_virtual_time(story())


def test_a_node_without_a_controller_says_so() -> None:
    async def story() -> None:
        world = World(with_controller=False)
        client = await world.client()
        response = await world.call(client, BrokerHeartbeatRequest(), 1)
        assert is_not_controller(response)
        await world.server.stop(0.0)

    in_virtual_time(story())
