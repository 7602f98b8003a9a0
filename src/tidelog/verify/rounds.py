"""Rounds of faults: strike, hold, undo, wait until every ISR is whole again."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from tidelog.cluster.errors import ClusterError
from tidelog.verify.faults import KINDS, Fault, FaultPort, Target
from tidelog.verify.history import FaultEvent
from tidelog.verify.watch import View
from tidelog.verify.workload import FaultPlan, VerifyError

WHOLE_TIMEOUT_S: Final = 90.0
# Between rounds the load runs undisturbed for a moment, so that every round has something to lose.
_CALM_S: Final = 0.5
_USAGE: Final = 2


class Watcher(Protocol):
    """What the rounds want to see of the cluster."""

    @property
    def view(self) -> View: ...
    async def wait_whole(self, timeout_s: float) -> str | None: ...
    async def controller(self) -> int: ...


class FaultDriver:
    """Plays a plan on a cluster. `broken` says why it gave up: a node did not come back, an ISR stayed short."""

    def __init__(self, port: FaultPort, plan: FaultPlan) -> None:
        self.events: list[FaultEvent] = []
        self.under_way: str | None = None
        self.broken: str | None = None
        self._port = port
        self._plan = plan
        self._nodes = tuple(port.nodes())
        self._rng = random.Random(plan.seed)
        for kind in plan.kinds:
            if KINDS[kind].needs_nodes > len(self._nodes):
                raise VerifyError(f"{kind} needs {KINDS[kind].needs_nodes} nodes, this cluster has {len(self._nodes)}")

    async def run(self, watch: Watcher, now_ms: Callable[[], int], until_ms: int) -> None:
        """Rounds until the time is over or all are played; one that has begun is finished."""
        for number, kind in enumerate(_shuffled(self._plan.kinds, self._rng)):
            await asyncio.sleep(_CALM_S)
            if number == self._plan.rounds or now_ms() >= until_ms or self.broken is not None:
                return
            await self._round(KINDS[kind](), watch, now_ms)

    async def _round(self, fault: Fault, watch: Watcher, now_ms: Callable[[], int]) -> None:
        if (missing := await watch.wait_whole(WHOLE_TIMEOUT_S)) is not None:
            self.broken = f"before {fault.name}: {missing}"
            return
        target = Target(
            nodes=self._nodes,
            view=watch.view,
            controller=await watch.controller() if fault.needs_controller else -1,
            rng=self._rng,
        )
        node = fault.choose(target)
        hold_s = self._rng.uniform(*(self._plan.hold_s or fault.hold_s))
        began_ms = now_ms()
        self.under_way = f"{fault.name} of node {node}"
        try:
            strike = asyncio.ensure_future(asyncio.to_thread(fault.strike, self._port, node, target))
            try:
                await asyncio.shield(strike)
                await asyncio.sleep(hold_s)
            finally:
                # Also when the run is interrupted, be it in the middle of the strike: nobody wants a cluster back
                # with a node missing.
                await asyncio.wait([strike])
                if strike.exception() is None:
                    await asyncio.shield(asyncio.to_thread(fault.undo, self._port, node))
        except ClusterError as error:
            if error.status == _USAGE:
                raise
            self.broken = f"{self.under_way}: {error.message}"
        healed_ms = now_ms()
        missing = None if self.broken else await watch.wait_whole(WHOLE_TIMEOUT_S)
        if missing is not None:
            self.broken = f"{WHOLE_TIMEOUT_S:g} s after the end of {self.under_way}: {missing}"
        self.events.append(
            FaultEvent(
                kind=fault.name,
                node=node,
                began_ms=began_ms,
                healed_ms=healed_ms,
                whole_ms=None if self.broken else now_ms(),
            )
        )
        self.under_way = None


def _shuffled(kinds: tuple[str, ...], rng: random.Random) -> Iterator[str]:
    """Every kind once in random order, then again: all kinds come equally often."""
    while kinds:
        yield from rng.sample(kinds, len(kinds))
