"""Streams send changes at once. A page that does not read costs nothing, and without a page nothing runs."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

from tidelog.web import audience as audience_module
from tidelog.web.audience import Audience
from tidelog.web.board import Board, NodeRow, Partition


def message(event: bytes) -> dict[str, Any]:
    assert event.startswith(b"data: ") and event.endswith(b"\n\n")
    told: dict[str, Any] = json.loads(event[6:])
    return told


def test_first_the_whole_board_then_changes() -> None:
    async def story() -> None:
        board = Board()
        audience = Audience(board)
        board.put_node(NodeRow(id=1))
        async with aclosing(audience.stream()) as stream:
            assert [node["id"] for node in message(await anext(stream))["nodes"]] == [1]
            waiting = asyncio.ensure_future(anext(stream))
            board.put_node(NodeRow(id=2))
            audience.changed()
            assert [node["id"] for node in message(await waiting)["nodes"]] == [2]

    asyncio.run(story())


def test_a_page_that_does_not_read_costs_nothing_and_gets_the_end_of_it() -> None:
    async def story() -> None:
        board = Board()
        audience = Audience(board)
        async with aclosing(audience.stream()) as stream:
            await anext(stream)
            for end in range(10_000):
                board.put_partition(Partition(topic="orders", number=0, leader_epoch=end))
                audience.changed()
            # One row, not ten thousand: nothing was kept for it.
            rows = message(await anext(stream))["partitions"]
            assert [row[3] for row in rows] == [9_999]

    asyncio.run(story())


def test_sources_run_only_while_a_page_is_open(monkeypatch: Any) -> None:
    monkeypatch.setattr(audience_module, "LINGER_S", 0.0)

    async def story() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def sources() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        audience = Audience(Board())
        audience.sources = sources
        assert not started.is_set()
        async with aclosing(audience.stream()) as one, aclosing(audience.stream()) as other:
            await anext(one)
            await anext(other)
            await started.wait()
            await one.aclose()
            # The other page is still open.
            assert not ended.is_set()
        await ended.wait()

    asyncio.run(story())
