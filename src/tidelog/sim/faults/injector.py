"""Applies a plan of faults to a cluster, supervises its processes meanwhile, and makes peace at the end."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tidelog.client.addresses import Address
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError
from tidelog.controller.partition_rules import rules_for
from tidelog.metadata.image import ClusterImage, TopicImage
from tidelog.sim.cluster import CLIENT_PORT, SimCluster, host_of
from tidelog.sim.faults.answers import grants, refusal
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import FaultKind, PlannedFault
from tidelog.sim.faults.standing import standing
from tidelog.sim.machine import End, Exit, State
from tidelog.sim.trace import FAULT, Trace
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

RESTART_S: Final = 1.0
"""After which a supervisor starts a process that ended by itself."""
ADMIN_TIMEOUT_S: Final = 10.0
SLOT_S: Final = 4.0
"""How long a fault of several steps is waited for, until the cluster is well and then until it is over."""
LOOK_S: Final = 0.05


class Injector:
    """One plan, one cluster. The cluster's nodes run when `run` begins; all run again when `quiet` returns."""

    def __init__(
        self,
        cluster: SimCluster,
        seed: int,
        plan: Sequence[PlannedFault],
        trace: Trace,
        kinds: Mapping[str, FaultKind] = KINDS,
        *,
        gives_slots: bool = False,
    ) -> None:
        self.field = Field(
            cluster,
            Budget(self._effective_min_isr),
            on_start=self._supervise,
            tell=partial(trace.record, FAULT),
            ask_broker=self._ask_broker,
        )
        self.struck = 0
        """Of those that were tried: some find nobody to strike, and some wait for a moment that does not come."""
        self.changed_at_s = 0.0
        """When a fault last struck or ended."""
        self.on_change: Callable[[], None] = lambda: None
        self.tried: list[PlannedFault] = []
        self._cluster = cluster
        self._seed = seed
        self._plan = plan
        self._trace = trace
        self._kinds = kinds
        self._over = False
        self._gives_slots = gives_slots
        self._supervised: dict[int, int] = {}
        # Faults that last, in the order they struck, each with its end's timer.
        self._lasting: dict[int, tuple[Applied, asyncio.TimerHandle]] = {}
        self._asking: dict[asyncio.Task[None], None] = {}

    async def run(self, least: int = 0) -> None:
        """Every fault at its moment, counted from now; of the spare ones as many as it takes until `least` struck."""
        loop = self._cluster.loop
        begin = loop.time()
        for node_id in self._cluster.nodes:
            if self.field.state(node_id) is not State.OFF:
                self._supervise(node_id)
        for planned in self._plan:
            if planned.spare and self.struck >= least:
                break
            await asyncio.sleep(max(0.0, begin + planned.at_s - loop.time()))
            if self._gives_slots and self._kinds[planned.kind].has_steps:
                await self._strike_alone(planned)
            else:
                self._strike(planned)

    def is_felt(self, for_s: float) -> bool:
        """Whether a fault struck or ended so short a while ago, or one of several steps is under way."""
        if self._cluster.loop.time() - self.changed_at_s < for_s:
            return True
        return any(not story.done() for story in self.field.stories)

    async def quiet(self, timeout_s: float = 120.0) -> None:
        """Everything that lasts ends, everything is repaired, every node runs; faults are over."""
        self._trace.record(FAULT, "quiet")
        self._over = True
        for number in list(self._lasting):
            self._end(number)
        for story in self.field.stories:
            if story.done() and not story.cancelled():
                # Raises what went wrong in it.
                story.result()
        network = self._cluster.network
        network.heal_all()
        self.set_clocks_right()
        for node_id in self._cluster.nodes:
            machine = self._cluster.machine(node_id)
            machine.disk_faults.clear()
            machine.slow_disk(None)
            network.slow_down(machine.host, None)
            if machine.state is State.PAUSED:
                machine.resume()
        self.field.held_down.clear()
        for node_id in self._cluster.nodes:
            self.field.start(node_id)
        try:
            await self._cluster.until(self._all_serve, timeout_s=timeout_s, every_s=0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{timeout_s:g} s after the last fault: {self._who_does_not_serve()}") from error
        self._trace.record(FAULT, "all_serve")

    def set_clocks_right(self) -> None:
        """A clock that jumped stays where it is, other than what lasts: so long its node may refuse what is written, as
        from the future.
        """
        for node_id in self._cluster.nodes:
            self._cluster.machine(node_id).clock.correct()

    def _all_serve(self) -> bool:
        return not self.field.bouncing and all(node.serves for node in self._cluster.nodes.values())

    def _who_does_not_serve(self) -> str:
        newest = self.field.look()
        return "; ".join(
            f"node {node_id} is {standing(node, newest)}"
            for node_id, node in self._cluster.nodes.items()
            if not node.serves or node_id in self.field.bouncing
        )

    # --- faults -------------------------------------------------------------------------------------------------------

    async def _strike_alone(self, planned: PlannedFault) -> None:
        """Once the others are over, if that is soon; who is due meanwhile comes late."""
        await self._wait(self._is_well)
        self._strike(planned)
        await self._wait(lambda: all(story.done() for story in self.field.stories))

    async def _wait(self, holds: Callable[[], bool]) -> None:
        deadline_s = self._cluster.loop.time() + SLOT_S
        while not holds() and self._cluster.loop.time() < deadline_s:
            await asyncio.sleep(LOOK_S)

    def _is_well(self) -> bool:
        return not self._lasting and all(node.serves for node in self._cluster.nodes.values())

    def _strike(self, planned: PlannedFault) -> None:
        self.tried.append(planned)
        rng = random.Random(f"{self._seed} fault {planned.number}")
        applied = self._kinds[planned.kind].strike(self.field, rng)
        if applied is None:
            self._trace.record(FAULT, "skipped", fault=planned.kind, number=planned.number)
            return
        if applied.moment is None:
            self._struck(planned, applied)
        else:
            self._trace.record(FAULT, "armed", fault=planned.kind, **_told(planned, applied))
            self._changed()
            applied.moment.then(lambda what: self._moment_came(planned, applied, what))
        if applied.end is not None:
            for node_id in applied.nodes:
                self.field.disturbed[node_id] = self.field.disturbed.get(node_id, 0) + 1
            timer = self._cluster.loop.call_later(applied.lasts_s, self._end, planned.number)
            self._lasting[planned.number] = (applied, timer)

    def _moment_came(self, planned: PlannedFault, applied: Applied, what: dict[str, Any]) -> None:
        """Also inside of a node's own call, whose disk is the trap."""
        if not self._over:
            self._struck(planned, applied, what)

    def _struck(self, planned: PlannedFault, applied: Applied, what: Mapping[str, Any] | None = None) -> None:
        self.struck += 1
        self._changed()
        self._trace.record(FAULT, planned.kind, **_told(planned, applied) | dict(what or {}))

    def _changed(self) -> None:
        self.changed_at_s = self._cluster.loop.time()
        self.on_change()

    def _end(self, number: int) -> None:
        applied, timer = self._lasting.pop(number)
        timer.cancel()
        self._changed()
        for node_id in applied.nodes:
            left = self.field.disturbed[node_id] - 1
            if left:
                self.field.disturbed[node_id] = left
            else:
                del self.field.disturbed[node_id]
        missed = applied.moment is not None and not applied.moment.came
        self._trace.record(FAULT, "missed" if missed else "end", number=number)
        assert applied.end is not None
        applied.end()

    def _effective_min_isr(self, image: ClusterImage, topic: TopicImage) -> int:
        config = next(iter(self._cluster.nodes.values())).config
        return rules_for(image, config)(topic).min_insync_replicas

    # --- processes ----------------------------------------------------------------------------------------------------

    def _supervise(self, node_id: int) -> None:
        machine = self._cluster.machine(node_id)
        if self._supervised.get(node_id) == machine.starts:
            return
        self._supervised[node_id] = machine.starts
        machine.ended().add_done_callback(lambda future: self._ended(node_id, future.result()))

    def _ended(self, node_id: int, end: Exit) -> None:
        error = None if end.error is None else f"{type(end.error).__name__}: {end.error}"
        self._trace.record(FAULT, "exit", node=node_id, end=end.end.value, error=error)
        if end.end is not End.RETURNED:
            self.field.budget.end_unclean(node_id, self.field.look())
        self._cluster.loop.call_later(RESTART_S, self.field.start, node_id)

    # --- requests of an administrator ---------------------------------------------------------------------------------

    def _ask_broker(self, node_id: int, request: Any, accepted: Moment | None = None) -> None:
        task = self._cluster.loop.create_task(self._ask(node_id, request, accepted), name="administrator")
        self._asking[task] = None
        task.add_done_callback(lambda done: self._asking.pop(done, None))

    async def _ask(self, node_id: int, request: Any, accepted: Moment | None) -> None:
        api = APIS[spec_of(type(request)).api_key]
        answer, granted = "answered", False
        try:
            async with asyncio.timeout(ADMIN_TIMEOUT_S):
                connection = await Connection.open(Address(host_of(node_id), CLIENT_PORT))
                try:
                    response = await connection.request(request, api.response)
                finally:
                    connection.abort("done")
        except (ClientError, TimeoutError) as error:
            answer = type(error).__name__
        else:
            refused = refusal(response)
            answer, granted = answer if refused is None else refused.name, grants(response)
        self._trace.record(FAULT, "asked", api=api.name, node=node_id, answer=answer)
        if accepted is not None and granted:
            accepted.come()


def _told(planned: PlannedFault, applied: Applied) -> dict[str, Any]:
    return {"number": planned.number, "lasts_s": round(applied.lasts_s, 6)} | applied.what
