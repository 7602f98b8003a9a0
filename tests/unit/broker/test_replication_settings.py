"""How long an answer a follower takes: what its leader may have to send, which the config says."""

from typing import Any

import pytest
from tests.unit.broker.virtual_node import PROPERTIES, on_virtual_time, running_node

from tidelog.broker import broker_role
from tidelog.broker.peers import Peers, longest_fetch_answer
from tidelog.client.connection import DEFAULT_MAX_RESPONSE_BYTES, ConnectionSettings
from tidelog.core.config.node import NodeConfig
from tidelog.storage.memory import MemoryDisk

MIB = 1 << 20


def _longest(**properties: int) -> int:
    given = {key.replace("_", "."): str(value) for key, value in properties.items()}
    return longest_fetch_answer(NodeConfig.parse(PROPERTIES | given)[0])


def test_one_batch_as_large_as_a_broker_accepts_and_what_was_asked_for() -> None:
    assert _longest() >= DEFAULT_MAX_RESPONSE_BYTES
    assert _longest(socket_request_max_bytes=512 * MIB) > 512 * MIB + 10 * MIB
    assert _longest(replica_fetch_response_max_bytes=700 * MIB) > 800 * MIB
    # Read, and compressed anew as its topic wants it, a batch may be larger than the request that brought it.
    assert _longest(tidelog_decompression_max_bytes=600 * MIB) > 600 * MIB


def test_no_longer_than_a_frame_can_be() -> None:
    assert _longest(socket_request_max_bytes=2**31 - 1) == 2**31 - 1


def test_a_broker_follows_with_these_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ConnectionSettings] = []

    class Noted(Peers):
        def __init__(self, *arguments: Any, settings: ConnectionSettings, **more: Any) -> None:
            given.append(settings)
            super().__init__(*arguments, settings=settings, **more)

    async def story() -> None:
        async with running_node(MemoryDisk(), socket_request_max_bytes=str(512 * MIB)):
            assert given[0].max_response_bytes > 512 * MIB
            assert given[0].connect_timeout_s == 30.0

    monkeypatch.setattr(broker_role, "Peers", Noted)
    on_virtual_time(story)
