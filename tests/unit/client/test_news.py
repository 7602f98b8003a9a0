"""What comes shortly after the first is told with it; on a busy loop nobody waits longer for that."""

import asyncio

from tidelog.client.news import News
from tidelog.sim.loop import run


def test_what_comes_together_is_told_together() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        news = News(gather_s=0.5)
        began_s = loop.time()
        loop.call_later(1.0, news.tell)
        loop.call_later(1.2, news.tell)
        await news.wait()
        assert loop.time() - began_s == 1.5
        loop.call_later(1.0, news.tell)
        await news.wait()
        assert loop.time() - began_s == 3.0, "the second of before is no news any more"

    run(story())


def test_what_came_while_nobody_had_a_turn_is_told_at_once() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        news = News(gather_s=0.5)
        news.tell()
        await asyncio.sleep(2.0)
        began_s = loop.time()
        await news.wait()
        assert loop.time() == began_s

    run(story())
