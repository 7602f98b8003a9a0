"""Responses leave in the order of the requests; limits pause reading instead of buffering; shutdown is orderly."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.toy_server import (
    FETCH,
    HEARTBEAT,
    PRODUCE,
    Client,
    World,
    heartbeat_frame,
    in_virtual_time,
    metadata_frame,
    request_frame,
)

from tidelog.broker.dispatch import CloseConnection
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.metadata import MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData


def produce_frame(correlation_id: int, acks: int = -1, records: bytes = b"records") -> bytes:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    return request_frame(PRODUCE, 9, correlation_id, ProduceRequest(acks=acks, topic_data=[data]))


def fetch_frame(correlation_id: int) -> bytes:
    return request_frame(FETCH, 12, correlation_id, FetchRequest())


def large_fetch(size: int) -> FetchResponse:
    partition = PartitionData(partition_index=0, records=bytes(size))
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


KINDS: dict[str, Callable[[int], bytes]] = {
    "now": heartbeat_frame,
    "alone": metadata_frame,
    "acks=all": produce_frame,
    "acks=1": lambda number: produce_frame(number, acks=1),
    "acks=0": lambda number: produce_frame(number, acks=0),
}
ANSWERS = {"metadata": MetadataResponse, "produce": ProduceResponse}


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=40),
    picks=st.lists(st.integers(0, 100), min_size=1),
    limit=st.integers(1, 10),
    cuts=st.lists(st.integers(1, 200), min_size=1),
)
def test_responses_keep_the_order_whatever_waits(
    kinds: list[str], picks: list[int], limit: int, cuts: list[int]
) -> None:
    async def story() -> None:
        world = await World.start(max_in_flight=limit, frames_per_turn=3)
        client = await world.client()
        stream = b"".join(KINDS[kind](number) for number, kind in enumerate(kinds))
        turn = 0
        while stream:
            size = cuts[turn % len(cuts)]
            client.send(stream[:size])
            stream = stream[size:]
            turn += 1
        names = dict.fromkeys(range(len(kinds)), "")
        turn = 0
        while len(world.toy.served) < len(kinds) or any(not future.done() for future in world.toy.parked.values()):
            await asyncio.sleep(0.05)
            names.update({number: name for name, number in world.toy.served})
            waiting = [number for number, future in world.toy.parked.items() if not future.done()]
            assert len(waiting) <= limit
            assert len(waiting) <= 1 or {names[number] for number in waiting} == {"produce"}
            if waiting:
                # Any of them, not the first.
                number = waiting[picks[turn % len(picks)] % len(waiting)]
                world.toy.parked[number].set_result(ANSWERS[names[number]]())
                turn += 1
        expected = [number for number, kind in enumerate(kinds) if kind != "acks=0"]
        assert [await client.correlation_id() for _ in expected] == expected
        await client.heartbeat(1000)
        assert [number for _, number in world.toy.served] == [*range(len(kinds)), 1000]

    in_virtual_time(story())


def test_reading_pauses_at_the_in_flight_limit_and_goes_on() -> None:
    async def story() -> None:
        world = await World.start(max_in_flight=5)
        client, other = await world.client(), await world.client()
        for number in range(50):
            client.send(produce_frame(number))
        await asyncio.sleep(1)
        assert len(world.toy.parked) == 5
        await other.heartbeat(1)
        for number in range(50):
            world.toy.parked[number].set_result(ProduceResponse())
            assert await client.correlation_id() == number
            await asyncio.sleep(0.01)
            assert sum(not future.done() for future in world.toy.parked.values()) <= 5

    in_virtual_time(story())


def test_answered_produces_behind_a_waiting_one_count_as_in_flight() -> None:
    async def story() -> None:
        world = await World.start(max_in_flight=5)
        client = await world.client()
        client.send(produce_frame(0) + b"".join(produce_frame(number, acks=1) for number in range(1, 50)))
        await asyncio.sleep(1)
        assert len(world.toy.served) == 5
        world.toy.parked[0].set_result(ProduceResponse())
        assert [await client.correlation_id() for _ in range(50)] == list(range(50))

    in_virtual_time(story())


def test_a_request_starts_when_those_before_it_are_answered() -> None:
    """As in Kafka, so that a client sees what it asked for before; produces alone overlap."""

    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(produce_frame(0) + produce_frame(1) + heartbeat_frame(2) + metadata_frame(3) + produce_frame(4))
        await asyncio.sleep(1)
        assert [number for _, number in world.toy.served] == [0, 1]
        world.toy.parked[1].set_result(ProduceResponse())
        world.toy.parked[0].set_result(ProduceResponse())
        await asyncio.sleep(1)
        assert [number for _, number in world.toy.served] == [0, 1, 2, 3]
        world.toy.parked[3].set_result(MetadataResponse())
        await asyncio.sleep(1)
        world.toy.parked[4].set_result(ProduceResponse())
        assert [await client.correlation_id() for _ in range(5)] == list(range(5))

    in_virtual_time(story())


def test_what_is_sent_behind_a_waiting_request_is_read_only_a_little() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(0) + b"".join(produce_frame(n, acks=1, records=bytes(5000)) for n in range(1, 500)))
        await asyncio.sleep(1)
        assert world.server.network.pool.lent_bytes <= 262_144
        assert client.transport.get_write_buffer_size() > 2_000_000
        world.toy.parked[0].set_result(MetadataResponse())
        assert [await client.correlation_id() for _ in range(500)] == list(range(500))

    in_virtual_time(story())


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def story() -> None:
        world = await World.start(write_high_bytes=1_000_000)
        world.toy.fetch_response = large_fetch(400_000)
        slow, other = await world.client(), await world.client()
        slow.transport.pause_reading()
        for number in range(200):
            slow.send(fetch_frame(number))
        await asyncio.sleep(1)
        served = len(world.toy.served)
        # The mark is passed by one response, and a few more are held answered.
        assert served <= 6
        await other.heartbeat(1)
        slow.transport.resume_reading()
        assert [await slow.correlation_id() for _ in range(200)] == list(range(200))

    in_virtual_time(story())


def test_a_client_that_never_reads_is_closed_as_idle() -> None:
    async def story() -> None:
        world = await World.start(write_high_bytes=1_000_000, max_idle_s=600)
        world.toy.fetch_response = large_fetch(800_000)
        slow = await world.client()
        slow.transport.pause_reading()
        slow.send(b"".join(fetch_frame(number) for number in range(10)))
        await asyncio.sleep(610)
        assert not world.server.network.connections

    in_virtual_time(story())


def test_idle_connections_are_closed_and_busy_ones_kept() -> None:
    async def story() -> None:
        world = await World.start(max_idle_s=600)
        idle, busy, waiting = [await world.client() for _ in range(3)]
        await idle.heartbeat(1)
        waiting.send(metadata_frame(1))
        for number in range(30):
            await asyncio.sleep(100)
            await busy.heartbeat(number)
        assert await idle.closed_by_server() == b""
        world.toy.parked[1].set_result(MetadataResponse())
        assert await waiting.correlation_id() == 1
        assert await waiting.closed_by_server(within_s=1201) == b""
        assert world.server.network.connections == {}

    in_virtual_time(story())


def test_a_flood_on_one_socket_leaves_others_their_turns() -> None:
    async def story() -> None:
        world = await World.start(frames_per_turn=10)
        flood, other = await world.client(), await world.client()
        flood.send(b"".join(heartbeat_frame(number) for number in range(2000)))
        await asyncio.sleep(0)
        await other.heartbeat(9999)
        # The round trip of the other takes a few turns of the loop; the flood has had no more than those.
        before = [number for _, number in world.toy.served].index(9999)
        assert before <= 100
        assert [await flood.correlation_id() for _ in range(2000)] == list(range(2000))

    in_virtual_time(story())


def test_a_long_request_takes_its_whole_turn() -> None:
    async def story() -> None:
        world = await World.start()
        client, other = await world.client(), await world.client()
        frame = heartbeat_frame(1, group="g" * 30_000)
        client.send(frame * 20)
        await asyncio.sleep(0)
        await other.heartbeat(9999)
        assert [number for _, number in world.toy.served].index(9999) <= 12
        assert [await client.correlation_id() for _ in range(20)] == [1] * 20

    in_virtual_time(story())


def test_request_bytes_of_all_are_bounded_and_everyone_gets_through() -> None:
    async def story() -> None:
        limit = 3_000_000
        world = await World.start(max_queued_bytes=limit)
        frame = produce_frame(5, acks=1, records=bytes(2_000_000))
        clients = [await world.client() for _ in range(10)]
        for client in clients:
            client.send(frame[:1_500_000])
        await asyncio.sleep(1)
        budget = world.server.network.budget
        assert budget.waiting > 0
        assert budget.held_bytes < limit + 10 * 262_144 + 2_097_152
        # Whoever holds nothing is served as ever.
        await (await world.client()).heartbeat(1)
        for client in clients:
            client.send(frame[1_500_000:])
        for client in clients:
            assert await client.correlation_id() == 5
        assert budget.held_bytes == 0
        assert budget.waiting == 0

    in_virtual_time(story())


def test_a_bug_in_a_handler_closes_that_connection_and_tells_the_story(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        for group in ("bug", "nonsense"):
            bad, good = await world.client(), await world.client()
            bad.send(heartbeat_frame(41) + heartbeat_frame(42, group) + heartbeat_frame(43))
            assert await bad.correlation_id() == 41
            assert await bad.closed_by_server() == b""
            await good.heartbeat(2)

    in_virtual_time(story())
    assert caplog.text.count("(correlation id 42) failed; closing the connection") == 2
    assert "Heartbeat v4 of 127.0.0.1:" in caplog.text
    assert "a bug of ours" in caplog.text


@pytest.mark.parametrize("answer", [ValueError("a bug of ours"), MetadataResponse(controller_id=2**40), 17])
def test_a_bug_in_a_waiting_request_closes_the_connection(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(1))
        await asyncio.sleep(1)
        if isinstance(answer, Exception):
            world.toy.parked[1].set_exception(answer)
        else:
            world.toy.parked[1].set_result(answer)
        assert await client.closed_by_server() == b""

    in_virtual_time(story())
    assert "Metadata v12 of 127.0.0.1:" in caplog.text
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [logging.ERROR]


def test_a_handler_may_close_the_connection_on_purpose(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(1))
        await asyncio.sleep(1)
        world.toy.parked[1].set_exception(CloseConnection("acks=0 failed"))
        assert await client.closed_by_server() == b""

    in_virtual_time(story())
    assert "acks=0 failed" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_client_that_goes_away_is_told_to_handlers_and_its_answer_dropped() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(1))
        await asyncio.sleep(1)
        client.close()
        await asyncio.sleep(1)
        assert world.toy.closed_clients == 1
        assert world.toy.contexts[0].connection.closed
        world.toy.parked[1].set_result(MetadataResponse())
        await asyncio.sleep(1)
        assert world.server.network.budget.held_bytes == 0

    in_virtual_time(story())


def test_what_was_sent_behind_a_waiting_request_is_served_after_a_close() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(0) + produce_frame(1, acks=0))
        client.close()
        await asyncio.sleep(1)
        world.toy.parked[0].set_result(MetadataResponse())
        await asyncio.sleep(1)
        assert [number for _, number in world.toy.served] == [0, 1]
        assert not world.server.network.connections

    in_virtual_time(story())


def test_acks_0_then_a_closed_socket_is_served_to_the_last() -> None:
    async def story() -> None:
        world = await World.start(frames_per_turn=4, max_in_flight=1000)
        client = await world.client()
        client.send(b"".join(produce_frame(number, acks=0) for number in range(100)))
        client.close()
        await asyncio.sleep(10)
        assert [number for _, number in world.toy.served] == list(range(100))

    in_virtual_time(story())


def test_the_context_says_who_asks() -> None:
    async def story() -> None:
        world = await World.start()
        client = await Client.connect("::1")
        await client.heartbeat(5)
        context = world.toy.contexts[0]
        assert (context.api_key, context.api_version, context.correlation_id) == (HEARTBEAT, 4, 5)
        assert (context.client_id, context.client_host, context.listener_name) == ("test", "127.0.0.1", "PLAINTEXT")

    in_virtual_time(story())


def test_shutdown_answers_what_is_in_flight() -> None:
    async def story() -> None:
        world = await World.start()
        idle, waiting = await world.client(), await world.client()
        waiting.send(metadata_frame(1))
        await asyncio.sleep(1)
        stopping = asyncio.ensure_future(world.server.stop(deadline_s=10))
        await asyncio.sleep(1)
        assert await idle.closed_by_server() == b""
        with pytest.raises(ConnectionRefusedError):
            await world.client()
        waiting.send(heartbeat_frame(2))
        assert not stopping.done()
        world.toy.parked[1].set_result(MetadataResponse())
        assert await waiting.correlation_id() == 1
        assert await waiting.closed_by_server() == b""
        await stopping
        assert world.loop.time() < 5

    in_virtual_time(story())


def test_shutdown_cuts_what_is_left_at_its_deadline() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(1))
        await asyncio.sleep(1)
        await world.server.stop(deadline_s=10)
        assert world.loop.time() == pytest.approx(11)
        assert await client.closed_by_server() == b""

    in_virtual_time(story())


def test_the_same_story_twice_has_the_same_steps() -> None:
    def once() -> tuple[list[tuple[str, int]], list[int]]:
        served: list[tuple[str, int]] = []
        answers: list[int] = []

        async def story() -> None:
            world = await World.start(frames_per_turn=3)
            clients = [await world.client() for _ in range(3)]
            for number in range(30):
                clients[number % 3].send(produce_frame(number, acks=1) + heartbeat_frame(100 + number))
            for index in range(60):
                answers.append(await clients[index % 3].correlation_id())
            served.extend(world.toy.served)

        in_virtual_time(story())
        return served, answers

    assert once() == once()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max_connections": 2}, "max.connections=2"),
        ({"max_connections_per_ip": 2}, "max.connections.per.ip=2"),
        ({"max_connections_per_ip_overrides": {"127.0.0.1": 2}}, "max.connections.per.ip=2"),
    ],
)
def test_connections_are_limited(limits: dict[str, object], why: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start(**limits)
        first, second = await world.client(), await world.client()
        await first.heartbeat(1)
        await second.heartbeat(1)
        third = await world.client()
        assert await third.closed_by_server() == b""
        first.close()
        await asyncio.sleep(1)
        fourth = await world.client()
        await fourth.heartbeat(1)

    in_virtual_time(story())
    assert why in caplog.text


def test_a_request_of_the_largest_size_is_served() -> None:
    async def story() -> None:
        frame = produce_frame(1, acks=1, records=bytes(5_000_000))
        world = await World.start(max_request_bytes=len(frame) - 4)
        client = await world.client()
        client.send(frame)
        assert await client.correlation_id() == 1
        await client.heartbeat(2)
        assert world.server.network.pool.lent_bytes == 0

    in_virtual_time(story())
