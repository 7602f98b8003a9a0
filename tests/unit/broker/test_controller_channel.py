"""The way to the active controller: wherever it is, for as long as the request has time."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.broker.toy_node import ToyNode
from tests.unit.broker.toy_server import in_virtual_time

from tidelog.broker.controller_channel import ControllerRouter, NoController
from tidelog.broker.peers import Peers
from tidelog.client.addresses import Address
from tidelog.client.errors import ConnectionFailed, ConnectionRefused
from tidelog.controller import failures
from tidelog.controller.failures import error_response, is_not_controller
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from tidelog.wire.messages.create_topics import CreateTopicsResponse as Created
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.wire.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from tidelog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

OWN_ID = 1
PORT = 9090


def create(name: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name)], timeout_ms=5000)


def created(request: CreateTopicsRequest) -> Created:
    return Created(topics=[CreatableTopicResult(name=request.topics[0].name, error_message=None)])


def not_controller(request: Any) -> Any:
    return error_response(request, ApiError(ErrorCode.NOT_CONTROLLER, "ask somebody else"))


class Local:
    """The controller of this node."""

    def __init__(self, answer: Callable[[Any], Any], *, is_active: bool = True) -> None:
        self.is_active = is_active
        self.answer = answer
        self.timeouts_ms: list[int] = []

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        self.timeouts_ms.append(timeout_ms)
        return self.answer(request)


class World:
    """A broker, and controllers 2, 3… at other nodes."""

    def __init__(self, *, leader: int = -1, local: Local | None = None, max_waiting: int = 10) -> None:
        self.loop = asyncio.get_running_loop()
        self.leader = leader
        self.nodes: dict[int, ToyNode] = {}
        self.peers = Peers(self.loop, OWN_ID, address_of=lambda node: Address("127.0.0.1", PORT + node))
        self.router = ControllerRouter(
            leader=lambda: self.leader,
            local=local,
            peers=self.peers,
            loop=self.loop,
            rng=random.Random(3),
            max_waiting=max_waiting,
        )

    async def controller(
        self, node_id: int, answer: Callable[[Any], Any] = created, request: type[Any] = CreateTopicsRequest
    ) -> ToyNode:
        node = self.nodes[node_id] = ToyNode({request: answer})
        await node.start(PORT + node_id)
        return node

    def elect(self, leader: int) -> None:
        self.leader = leader
        self.router.leader_changed()

    async def close(self) -> None:
        await self.peers.close()
        for node in self.nodes.values():
            await node.stop()


def code(response: Created) -> int:
    return response.topics[0].error_code


def test_the_controller_of_this_node_is_asked_without_a_detour() -> None:
    async def story() -> None:
        local = Local(created)
        world = World(leader=OWN_ID, local=local)
        assert code(await world.router.send(create(), timeout_ms=1234)) == ErrorCode.NONE
        assert local.timeouts_ms == [1234]
        await world.close()

    in_virtual_time(story())


def test_the_controller_of_another_node_is_asked_in_the_newest_version() -> None:
    async def story() -> None:
        world = World(leader=2)
        node = await world.controller(2)
        answers = await asyncio.gather(*(world.router.send(create(f"t{n}")) for n in range(5)))
        assert [answer.topics[0].name for answer in answers] == [f"t{n}" for n in range(5)]
        assert {ctx.api_version for ctx in node.contexts} == {7}
        await world.close()

    in_virtual_time(story())


def test_no_leader_is_waited_for_and_a_new_one_asked_at_once() -> None:
    async def story() -> None:
        world = World()
        await world.controller(2)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asyncio.sleep(3.0)
        assert not answer.done()
        world.elect(2)
        elected_s = world.loop.time()
        assert code(await answer) == ErrorCode.NONE
        assert world.loop.time() == elected_s
        await world.close()

    in_virtual_time(story())


def test_a_node_that_leads_but_is_not_active_yet_asks_itself_when_it_is() -> None:
    async def story() -> None:
        local = Local(created, is_active=False)
        world = World(leader=OWN_ID, local=local)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asyncio.sleep(1.0)
        assert not answer.done() and not local.timeouts_ms
        local.is_active = True
        world.router.leader_changed()
        assert code(await answer) == ErrorCode.NONE
        await world.close()

    in_virtual_time(story())


def test_a_controller_that_is_none_any_more_sends_nobody_away() -> None:
    async def story() -> None:
        world = World(leader=2)
        old = await world.controller(2, not_controller)
        await world.controller(3)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asyncio.sleep(1.0)
        # It is asked again, and not in a frenzy.
        assert 3 <= len(old.requests) <= 20
        world.elect(3)
        assert code(await answer) == ErrorCode.NONE
        await world.close()

    in_virtual_time(story())


def test_the_local_controller_may_lose_its_office_over_the_request() -> None:
    async def story() -> None:
        def resign(request: Any) -> Any:
            local.is_active = False
            world.elect(2)
            return not_controller(request)

        local = Local(resign)
        world = World(leader=OWN_ID, local=local)
        await world.controller(2)
        assert code(await world.router.send(create())) == ErrorCode.NONE
        await world.close()

    in_virtual_time(story())


def test_a_dead_controller_is_asked_again_until_another_leads() -> None:
    async def story() -> None:
        world = World(leader=2)
        await world.controller(3)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asyncio.sleep(0.7)
        world.elect(3)
        assert code(await answer) == ErrorCode.NONE
        assert world.loop.time() == pytest.approx(0.7)
        await world.close()

    in_virtual_time(story())


def test_a_controller_that_dies_over_the_request() -> None:
    async def story() -> None:
        world = World(leader=2)
        asked = asyncio.Event()

        def never(request: Any) -> Any:
            asked.set()
            return world.loop.create_future()

        dying = await world.controller(2, never)
        await world.controller(3)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asked.wait()
        del world.nodes[2]
        await dying.stop()
        world.elect(3)
        assert code(await answer) == ErrorCode.NONE
        await world.close()

    in_virtual_time(story())


def test_a_frozen_leader_is_given_up_soon_after_another_leads() -> None:
    async def story() -> None:
        world = World(leader=2)
        await world.controller(2, lambda _: world.loop.create_future())
        await world.controller(3)
        answer = asyncio.ensure_future(world.router.send(create()))
        await asyncio.sleep(5.0)
        assert not answer.done()
        world.elect(3)
        assert code(await answer) == ErrorCode.NONE
        assert world.loop.time() == pytest.approx(5.5)
        await world.close()

    in_virtual_time(story())


def test_a_leader_that_is_replaced_may_still_answer() -> None:
    async def story() -> None:
        world = World(leader=2)
        late: asyncio.Future[Created] = world.loop.create_future()
        await world.controller(2, lambda _: late)
        answer = asyncio.ensure_future(world.router.send(create("decided")))
        await asyncio.sleep(1.0)
        world.elect(3)
        late.set_result(created(create("decided")))
        assert code(await answer) == ErrorCode.NONE
        assert world.loop.time() == pytest.approx(1.0)
        # The same leader, re-elected, is waited for as before.
        again: asyncio.Future[Created] = world.loop.create_future()
        world.elect(2)
        late = again
        answer = asyncio.ensure_future(world.router.send(create("again")))
        await asyncio.sleep(0.1)
        world.elect(3)
        world.elect(2)
        await asyncio.sleep(3.0)
        assert not answer.done()
        again.set_result(created(create("again")))
        assert code(await answer) == ErrorCode.NONE
        await world.close()

    in_virtual_time(story())


def test_time_is_over_with_one_clear_line() -> None:
    async def story() -> None:
        world = World(leader=2)
        response = await world.router.send(create(), timeout_ms=2000)
        assert code(response) == ErrorCode.REQUEST_TIMED_OUT
        line = response.topics[0].error_message
        assert line.startswith("No active controller answered within 2 s") and "connection refused" in line
        assert "\n" not in line
        assert world.loop.time() == pytest.approx(2.0)
        await world.close()

    in_virtual_time(story())


def test_a_silent_controller_hardly_outlasts_the_request() -> None:
    async def story() -> None:
        world = World(leader=2)
        await world.controller(2, lambda _: world.loop.create_future())
        response = await world.router.send(create(), timeout_ms=2000)
        assert code(response) == ErrorCode.REQUEST_TIMED_OUT
        assert world.loop.time() == pytest.approx(2.5)
        await world.close()

    in_virtual_time(story())


def test_a_controller_that_gives_up_in_time_says_why() -> None:
    async def story() -> None:
        async def gives_up(request: Any) -> Any:
            await asyncio.sleep(2.0)
            return error_response(request, ApiError(ErrorCode.REQUEST_TIMED_OUT, "not committed"))

        world = World(leader=2)
        await world.controller(2, gives_up)
        response = await world.router.send(create(), timeout_ms=2000)
        assert response.topics[0].error_message == "not committed"
        await world.close()

    in_virtual_time(story())


def test_a_request_without_any_time_is_decided_nevertheless() -> None:
    """Old clients ask for topics with a timeout of 0 and look later."""

    async def story() -> None:
        world = World(leader=2)
        node = await world.controller(2)
        assert code(await world.router.send(create(), timeout_ms=0)) == ErrorCode.NONE
        assert len(node.requests) == 1
        await world.close()

    in_virtual_time(story())


def test_no_more_than_so_many_wait() -> None:
    async def story() -> None:
        world = World(max_waiting=3)
        await world.controller(2)
        waiting = [asyncio.ensure_future(world.router.send(create())) for _ in range(3)]
        await asyncio.sleep(0)
        response = await world.router.send(create())
        assert code(response) == ErrorCode.REQUEST_TIMED_OUT
        assert "3 requests are already waiting" in response.topics[0].error_message
        assert world.loop.time() == 0.0
        # Whoever gives up makes room.
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(world.router.send(create())))
        world.elect(2)
        assert [code(each) for each in await asyncio.gather(*waiting)] == [ErrorCode.NONE] * 3
        await world.close()

    in_virtual_time(story())


def test_send_once_tries_once() -> None:
    async def story() -> None:
        heartbeat = BrokerHeartbeatRequest(broker_id=1)
        world = World()
        with pytest.raises(NoController):
            await world.router.send_once(heartbeat, lane="heartbeat", timeout_s=1.0)
        world.elect(2)
        with pytest.raises(ConnectionRefused):
            await world.router.send_once(heartbeat, lane="heartbeat", timeout_s=1.0)
        node = await world.controller(2, not_controller, BrokerHeartbeatRequest)
        response = await world.router.send_once(heartbeat, lane="heartbeat", timeout_s=1.0)
        assert (response.error_code, len(node.requests)) == (ErrorCode.NOT_CONTROLLER, 1)
        await node.stop()
        await world.controller(2, lambda _: world.loop.create_future(), BrokerHeartbeatRequest)
        with pytest.raises(ConnectionFailed):
            await world.router.send_once(heartbeat, lane="heartbeat", timeout_s=1.0)
        assert world.loop.time() == pytest.approx(1.0)
        await world.close()

    in_virtual_time(story())


def test_send_once_to_the_controller_of_this_node() -> None:
    async def story() -> None:
        world = World(leader=OWN_ID, local=Local(lambda _: BrokerHeartbeatResponse(is_caught_up=True)))
        response = await world.router.send_once(BrokerHeartbeatRequest(), lane="heartbeat", timeout_s=1.0)
        assert response.is_caught_up
        await world.close()

    in_virtual_time(story())


def test_features_are_updated_in_a_version_that_names_each_of_them() -> None:
    async def story() -> None:
        world = World(leader=2)
        node = await world.controller(2, lambda _: UpdateFeaturesResponse(error_message=None), UpdateFeaturesRequest)
        await world.router.send(UpdateFeaturesRequest())
        assert node.contexts[0].api_version == 1
        await world.close()

    in_virtual_time(story())


# --- where each API says that its sender does not lead ---

_SOMETHING: dict[type[Any], Any] = {
    CreateTopicsRequest: create(),
    DeleteTopicsRequest: DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    CreatePartitionsRequest: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t")]),
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name="t")]
    ),
}


@pytest.mark.parametrize("kind", failures._FAILURES, ids=lambda kind: kind.__name__)
def test_every_api_can_say_that_its_sender_does_not_lead(kind: type[Any]) -> None:
    request = _SOMETHING.get(kind) or kind()
    assert is_not_controller(not_controller(request))
    assert not is_not_controller(error_response(request, ApiError(ErrorCode.POLICY_VIOLATION, "no")))


def test_the_quorum_says_it_of_the_partition() -> None:
    def answer(error: ErrorCode) -> DescribeQuorumResponse:
        partition = ResponsePartitionData(error_code=error, error_message=None)
        return DescribeQuorumResponse(topics=[ResponseTopicData(partitions=[partition])], error_message=None)

    assert is_not_controller(answer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not is_not_controller(answer(ErrorCode.NONE))
