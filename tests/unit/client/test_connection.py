"""One connection: order, bounds, versions, and every way it can end."""

import asyncio
import sys
from typing import Any

import pytest
from tests.unit.client.toy_broker import CLOSE, ToyBroker

from tidelog.client.addresses import Address
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import ConnectionFailed, RequestTimedOut, Unsupported
from tidelog.sim.loop import run
from tidelog.wire.codec import write_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def test_many_requests_under_way_are_answered_each_with_its_own() -> None:
    broker = ToyBroker()
    broker.on(HeartbeatRequest, lambda request, _: HeartbeatResponse(throttle_time_ms=request.generation_id))
    async with broker.serving():
        connection = await Connection.open(broker.address, ConnectionSettings(max_in_flight=5))
        answers = await asyncio.gather(
            *(connection.request(HeartbeatRequest(generation_id=number), HeartbeatResponse) for number in range(50))
        )
        assert [answer.throttle_time_ms for answer in answers] == list(range(50))
        await connection.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await connection.request(HeartbeatRequest(), HeartbeatResponse)


async def test_the_highest_version_both_speak_is_used() -> None:
    broker = ToyBroker()
    broker.on(HeartbeatRequest, lambda request, _: HeartbeatResponse(), versions=(1, 2))
    broker.on(ListGroupsRequest, lambda request, _: ListGroupsResponse(), versions=(90, 99))
    async with broker.serving():
        connection = await Connection.open(broker.address)
        await connection.request(HeartbeatRequest(), HeartbeatResponse)
        assert broker.requests[-1][1] == 2
        assert connection.version_of(HeartbeatRequest, at_most=1) == 1
        with pytest.raises(Unsupported, match="v90 to v99"):
            connection.version_of(ListGroupsRequest)
        with pytest.raises(Unsupported, match="has no Fetch API"):
            connection.version_of(FetchRequest)
        await connection.close()


async def test_a_broker_that_knows_only_an_older_api_versions() -> None:
    """It answers in v0 with UNSUPPORTED_VERSION and the versions it has (KIP-511)."""
    broker = ToyBroker()

    def api_versions(request: Any, version: int) -> Any:
        offered = [ApiVersion(api_key=18, min_version=0, max_version=2), ApiVersion(api_key=12, max_version=4)]
        if version <= 2:
            return ApiVersionsResponse(api_keys=offered)
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=offered[:1])
        body = (0).to_bytes(4, "big") + write_message(refusal, 0)
        return len(body).to_bytes(4, "big") + body

    broker.on(ApiVersionsRequest, api_versions)
    async with broker.serving():
        connection = await Connection.open(broker.address)
        assert connection.versions[12] == (0, 4)
        assert [version for _, version in broker.requests] == [4, 2]
        await connection.close()


async def test_nobody_listens() -> None:
    async with ToyBroker().serving() as broker:
        address = broker.address
    with pytest.raises(ConnectionFailed, match=f"cannot connect to {address}: connection refused"):
        await Connection.open(address)


async def test_who_listens_does_not_answer() -> None:
    broker = ToyBroker()
    broker.on(ApiVersionsRequest, lambda request, _: None)
    async with broker.serving():
        with pytest.raises(ConnectionFailed, match="does not answer"):
            await Connection.open(broker.address, ConnectionSettings(connect_timeout_s=0.05))


async def test_all_who_wait_learn_that_the_connection_broke() -> None:
    broker = ToyBroker()
    broker.on(HeartbeatRequest, lambda request, _: CLOSE if request.generation_id else None)
    async with broker.serving():
        connection = await Connection.open(broker.address)
        answers = await asyncio.gather(
            *(connection.request(HeartbeatRequest(generation_id=n), HeartbeatResponse) for n in (0, 0, 1)),
            return_exceptions=True,
        )
        assert all(isinstance(answer, ConnectionFailed) for answer in answers)
        assert connection.closed


async def test_an_answer_that_never_comes_ends_the_connection() -> None:
    broker = ToyBroker()
    broker.on(HeartbeatRequest, lambda request, _: None)
    async with broker.serving():
        connection = await Connection.open(broker.address)
        with pytest.raises(RequestTimedOut, match=r"did not answer Heartbeat within 0\.05 s"):
            await connection.request(HeartbeatRequest(), HeartbeatResponse, timeout_s=0.05)
        assert connection.closed


def test_an_answer_that_is_there_when_its_time_is_up_counts() -> None:
    """A process that was stopped for longer finds both; what was read must not be thrown away."""

    class Nowhere(asyncio.Transport):
        def write(self, data: object) -> None:
            """Nobody reads it."""

    async def main() -> HeartbeatResponse:
        loop = asyncio.get_running_loop()
        connection = Connection(Address("nowhere", 1), ConnectionSettings())
        connection.connection_made(Nowhere())
        body = (0).to_bytes(4, "big") + write_message(HeartbeatResponse(), 0)
        frame = len(body).to_bytes(4, "big") + body

        def arrive() -> None:
            connection.get_buffer(0)[: len(frame)] = frame
            connection.buffer_updated(len(frame))

        # Set first, so it comes first of the two.
        loop.call_later(1.0, arrive)
        return await connection.request(HeartbeatRequest(), HeartbeatResponse, version=0, timeout_s=1.0)

    assert run(main()).error_code == ErrorCode.NONE


def test_a_connection_that_is_gone_holds_no_large_buffer() -> None:
    """It is part of a cycle, and may wait for the collector: a Spark worker grew by two answers with every task."""

    async def main() -> None:
        connection = Connection(Address("nowhere", 1), ConnectionSettings())
        connection.connection_made(asyncio.Transport())
        connection.get_buffer(0)[:4] = (8_000_000).to_bytes(4, "big")
        connection.buffer_updated(4)
        lent = connection.get_buffer(0)
        assert len(lent) == 8_000_000
        buffer = lent.obj
        lent.release()
        connection.connection_lost(None)
        # This function, and the call itself.
        assert sys.getrefcount(buffer) == 2

    run(main())


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((7).to_bytes(4, "big") + b"\0\0\0\x63" + b"\0\0\0", "response 99 instead of"),
        ((2).to_bytes(4, "big") + b"\0\0", "no room"),
        ((5).to_bytes(4, "big") + b"\0\0\0\x01\0", "bytes end early|answer 1"),
        (b"HTTP/1.1 400 Bad Request", "does not speak the Kafka protocol"),
    ],
)
async def test_answers_that_make_no_sense_end_the_connection(answer: bytes, complaint: str) -> None:
    broker = ToyBroker()
    broker.on(HeartbeatRequest, lambda request, _: answer)
    async with broker.serving():
        connection = await Connection.open(broker.address)
        with pytest.raises(ConnectionFailed, match=complaint):
            await connection.request(HeartbeatRequest(), HeartbeatResponse)
        assert connection.closed


async def test_a_request_given_up_does_not_disturb_the_others() -> None:
    release = asyncio.Event()
    broker = ToyBroker()

    async def heartbeat(request: Any, version: int) -> HeartbeatResponse:
        await release.wait()
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    broker.on(HeartbeatRequest, heartbeat)
    async with broker.serving():
        connection = await Connection.open(broker.address)
        given_up = asyncio.create_task(connection.request(HeartbeatRequest(generation_id=1), HeartbeatResponse))
        kept = asyncio.create_task(connection.request(HeartbeatRequest(generation_id=2), HeartbeatResponse))
        await asyncio.sleep(0)
        given_up.cancel()
        release.set()
        assert (await kept).throttle_time_ms == 2
        await connection.close()


def test_an_address_prints_as_it_is_written() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
