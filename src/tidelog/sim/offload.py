"""Blocking work under simulation: inline, after and before a wait that a slow disk would cause."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

from tidelog.sim.links import Delay

P = ParamSpec("P")
T = TypeVar("T")


class SimOffload:
    """`core.ports.Offload`. With a `delay`, work takes that long; it takes effect at any moment of that time."""

    def __init__(self, rng: random.Random, delay: Delay | None = None) -> None:
        self.delay = delay
        self._rng = rng

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._run(partial(function, *args, **kwargs))

    async def _run(self, work: Callable[[], T]) -> T:
        if self.delay is None:
            return work()
        whole_s = self.delay.draw(self._rng)
        before_s = self._rng.random() * whole_s
        await asyncio.sleep(before_s)
        result = work()
        await asyncio.sleep(whole_s - before_s)
        return result

    def run_all(self, work: Sequence[Callable[[], None]]) -> None:
        for piece in work:
            piece()
