"""Waiting for tasks to end, however they do."""

import asyncio

from tidelog.client.tasks import ended
from tidelog.sim.loop import VirtualLoop, run


async def _fail() -> None:
    raise ValueError("on purpose")


async def _sleep() -> None:
    await asyncio.sleep(5)


def test_waits_for_those_that_run_and_hides_how_they_end() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        cancelled = loop.create_task(_sleep())
        slow, failing = loop.create_task(_sleep()), loop.create_task(_fail())
        cancelled.cancel()
        await ended([cancelled, slow, failing])
        assert loop.time() == 5
        assert cancelled.cancelled() and slow.done() and isinstance(failing.exception(), ValueError)

    run(story())


def test_takes_no_turn_for_those_that_have_ended() -> None:
    """On every Python: `gather` takes some on 3.11 and none on later ones."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        done = loop.create_task(_fail())
        await asyncio.wait([done])
        before = loop.steps
        await ended([done])
        await ended([])
        assert loop.steps == before

    run(story())
