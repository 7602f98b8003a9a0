"""The bad-input table: who sends nonsense is closed with one log line, and nobody else notices."""

import asyncio
import logging
import struct
import tracemalloc

import pytest
from tests.unit.broker.toy_server import (
    API_VERSIONS,
    HEARTBEAT,
    METADATA,
    PRODUCE,
    World,
    framed,
    heartbeat_frame,
    in_virtual_time,
    metadata_frame,
    request_frame,
)

from tidelog.wire.codec import write_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.headers import write_request_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.metadata import MetadataResponse
from tidelog.wire.varint import write_uvarint

MAX = 100 * 1024 * 1024


def header(key: int, version: int, correlation_id: int = 7) -> bytes:
    return write_request_header(key, version, correlation_id, "bad")


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


METADATA_V9 = header(METADATA, 9)
HEARTBEAT_V4 = header(HEARTBEAT, 4)

BAD_INPUT = {
    "negative length": struct.pack(">i", -1),
    "most negative length": struct.pack(">i", -(2**31)),
    "length beyond the limit": struct.pack(">i", MAX + 1),
    "TLS hello": bytes.fromhex("16030102000100 01fc0303".replace(" ", "")) + b"\x00" * 60,
    "HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "empty frame": framed(b""),
    "frame without room for a header": framed(b"\x00\x03\x00"),
    "unknown API key": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "negative API key": framed(struct.pack(">hhih", -5, 0, 1, -1)),
    "known API that is not served": framed(header(11, 0)),
    "version beyond ours": framed(struct.pack(">hhih", METADATA, 99, 1, -1) + b"\0" * 40),
    "version before ours": framed(struct.pack(">hhih", PRODUCE, 2, 1, -1) + b"\0" * 40),
    "negative version": framed(struct.pack(">hhih", METADATA, -1, 1, -1)),
    "client id longer than the frame": framed(struct.pack(">hhih", METADATA, 1, 1, 30000) + b"abc"),
    "client id of negative length": framed(struct.pack(">hhih", METADATA, 1, 1, -2)),
    "random bytes": framed(bytes(range(7, 250, 3)) * 5),
    "string longer than the frame": framed(HEARTBEAT_V4 + uvarint(5000) + b"abc"),
    "string of negative length": framed(header(HEARTBEAT, 0) + struct.pack(">h", -9) + b"\0" * 20),
    "string of 2^32-1": framed(HEARTBEAT_V4 + b"\xff\xff\xff\xff\x0f" + b"abc"),
    "string that is not UTF-8": framed(HEARTBEAT_V4 + uvarint(3) + b"\xff\xfe" + b"\0" * 20),
    "overlong varint": framed(HEARTBEAT_V4 + b"\x80" * 11 + b"\x01" + b"\0" * 20),
    "body that ends early": framed(HEARTBEAT_V4 + uvarint(2) + b"g\0"),
    "array count 2^31-1": framed(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "array count below null": framed(header(METADATA, 1) + struct.pack(">i", -2)),
    "compact array count 2^32-1": framed(METADATA_V9 + b"\xff\xff\xff\xff\x0f"),
    "compact array count 2^31-1": framed(METADATA_V9 + b"\xff\xff\xff\xff\x07"),
    "array count larger than the bytes left": framed(METADATA_V9 + uvarint(1001) + b"\x02a\0" * 20),
    "a million empty array entries": framed(METADATA_V9 + uvarint(1_000_001) + b"\x01\0" * 1_000_000 + b"\0" * 5),
    "a million tagged fields": framed(
        HEARTBEAT_V4 + b"\x02g\0\0\0\x01\x02m\0" + uvarint(1_000_000) + b"\x05\x00" * 1_000_000
    ),
    "a million tagged fields in the header": framed(
        struct.pack(">hhih", HEARTBEAT, 4, 7, -1) + uvarint(1_000_000) + b"\x05\x00" * 1_000_000
    ),
    "a tagged field longer than the frame": framed(HEARTBEAT_V4 + b"\x02g\0\0\0\x01\x02m\0\x01\x05" + uvarint(900)),
    "a header tag longer than the frame": framed(
        struct.pack(">hhih", HEARTBEAT, 4, 7, -1) + b"\x01\x05" + uvarint(2**31)
    ),
}


@pytest.mark.parametrize("data", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_closes_its_connection_and_no_other(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        good = await world.client()
        await good.heartbeat(1)
        caplog.clear()
        bad = await world.client()
        bad.send(data)
        assert await bad.closed_by_server() == b""
        await good.heartbeat(2)
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(lines) == 1, lines
        assert lines[0].startswith("closing 127.0.0.1:")
        assert len(world.server.network.connections) == 1

    with caplog.at_level(logging.WARNING):
        in_virtual_time(story())


@pytest.mark.parametrize("data", BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_costs_little_memory(data: bytes) -> None:
    """Beyond the bytes that were really sent (each frame is at most a few times in memory on its way)."""

    async def story() -> None:
        world = await World.start()
        client = await world.client()
        tracemalloc.start()
        try:
            client.send(data)
            await client.closed_by_server()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2 * 1024 * 1024 + 5 * len(data)

    in_virtual_time(story())


@pytest.mark.parametrize(("name", "guess"), [("TLS hello", "TLS"), ("HTTP request", "HTTP")])
def test_the_log_line_guesses_the_cause(name: str, guess: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(BAD_INPUT[name])
        await client.closed_by_server()

    with caplog.at_level(logging.WARNING):
        in_virtual_time(story())
    assert guess in caplog.text


def test_log_lines_about_strangers_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await World.start()
        for _ in range(100):
            client = await world.client()
            client.send(struct.pack(">i", -1))
            await client.closed_by_server()
        await asyncio.sleep(60)
        client = await world.client()
        client.send(struct.pack(">i", -1))
        await client.closed_by_server()

    with caplog.at_level(logging.WARNING):
        in_virtual_time(story())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 22
    assert "80 more lines" in lines[20]


@pytest.mark.parametrize("version", [5, 6, 32767, -1])
def test_api_versions_newer_than_ours_is_answered_in_v0_and_kept(version: int) -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        # A body and header of the future: nothing of it is read but the correlation id.
        client.send(framed(struct.pack(">hhih", API_VERSIONS, version, 77, 3) + b"abc" + b"\xff" * 30))
        correlation_id, response = await client.response(API_VERSIONS, 0)
        assert correlation_id == 77
        assert response == ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=API_VERSIONS, min_version=0, max_version=4)],
        )
        await client.heartbeat(78)

    in_virtual_time(story())


def test_an_unsupported_api_versions_waits_for_its_turn() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(metadata_frame(1) + framed(struct.pack(">hhih", API_VERSIONS, 9, 2, -1)))
        await asyncio.sleep(1)
        world.toy.parked[1].set_result(MetadataResponse())
        assert [await client.correlation_id() for _ in range(2)] == [1, 2]

    in_virtual_time(story())


def test_trailing_bytes_are_accepted() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        body = write_message(HeartbeatRequest(group_id="g"), 4)
        client.send(framed(HEARTBEAT_V4 + body + b"what a newer client adds"))
        assert await client.correlation_id() == 7
        await client.heartbeat(8)

    in_virtual_time(story())


def test_a_client_id_that_is_not_utf8_is_accepted() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        body = write_message(HeartbeatRequest(group_id="g"), 4)
        client.send(framed(struct.pack(">hhih", HEARTBEAT, 4, 9, 3) + b"a\xff\xfe" + b"\0" + body))
        assert await client.correlation_id() == 9
        assert world.toy.contexts[-1].client_id == "a\ufffd\ufffd"

    in_virtual_time(story())


def test_a_null_client_id_is_accepted() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(framed(struct.pack(">hhih", HEARTBEAT, 4, 9, -1) + b"\0" + write_message(HeartbeatRequest(), 4)))
        assert await client.correlation_id() == 9
        assert world.toy.contexts[-1].client_id is None

    in_virtual_time(story())


def test_what_was_answered_before_the_nonsense_arrives() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(heartbeat_frame(1) + heartbeat_frame(2) + struct.pack(">i", -1) + heartbeat_frame(3))
        assert [await client.correlation_id() for _ in range(2)] == [1, 2]
        assert await client.closed_by_server() == b""
        assert [correlation_id for _, correlation_id in world.toy.served] == [1, 2]

    in_virtual_time(story())


def test_a_half_sent_frame_has_a_deadline() -> None:
    async def story() -> None:
        world = await World.start(frame_timeout_s=30)
        good, bad = await world.client(), await world.client()
        bad.send(heartbeat_frame(1)[:9])
        await asyncio.sleep(29)
        assert len(world.server.network.connections) == 2
        await good.heartbeat(1)
        assert await bad.closed_by_server() == b""
        assert world.loop.time() == pytest.approx(30, abs=0.1)
        await good.heartbeat(2)

    in_virtual_time(story())


def test_a_byte_now_and_then_does_not_move_the_deadline() -> None:
    async def story() -> None:
        world = await World.start(frame_timeout_s=30)
        client = await world.client()
        frame = heartbeat_frame(1)
        for index in range(len(frame) - 1):
            client.send(frame[index : index + 1])
            await asyncio.sleep(1.5)
            if client.reader.at_eof():
                break
        assert await client.closed_by_server() == b""
        assert world.loop.time() < 32

    in_virtual_time(story())


def test_a_slow_client_that_finishes_its_frames_is_served_for_ever() -> None:
    async def story() -> None:
        world = await World.start(frame_timeout_s=30)
        client = await world.client()
        for number in range(20):
            frame = heartbeat_frame(number)
            client.send(frame[:10])
            await asyncio.sleep(20)
            # The end of one and the beginning of the next in one go.
            client.send(frame[10:])
            assert await client.correlation_id() == number

    in_virtual_time(story())


def test_overlapping_frames_each_have_their_own_deadline() -> None:
    async def story() -> None:
        world = await World.start(frame_timeout_s=30)
        client = await world.client()
        rest = b""
        for number in range(20):
            frame = heartbeat_frame(number)
            client.send(rest + frame[:10])
            rest = frame[10:]
            await asyncio.sleep(20)
        client.send(rest)
        assert [await client.correlation_id() for _ in range(20)] == list(range(20))

    in_virtual_time(story())


def test_half_sent_frames_of_many_hold_little() -> None:
    async def story() -> None:
        world = await World.start()
        clients = [await world.client() for _ in range(500)]
        for client in clients:
            client.send(struct.pack(">i", MAX) + b"x" * 100)
        await asyncio.sleep(1)
        lent = world.server.network.pool.lent_bytes
        assert lent < 64 * 1024 * 1024 + 500 * 4096 + 256 * 1024
        await (await world.client()).heartbeat(1)
        for client in clients:
            client.close()
        await asyncio.sleep(1)
        assert world.server.network.pool.lent_bytes == 0
        assert world.server.network.budget.held_bytes == 0

    in_virtual_time(story())


def test_request_without_flexible_header_still_parses() -> None:
    async def story() -> None:
        world = await World.start()
        client = await world.client()
        client.send(request_frame(HEARTBEAT, 0, 3, HeartbeatRequest(group_id="g")))
        assert (await client.response(HEARTBEAT, 0))[0] == 3

    in_virtual_time(story())
