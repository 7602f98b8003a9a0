"""What the active controller does without being asked: fences, balances leaders, elects, writes when idle.

One timer for all of it, set to whatever comes first. A round runs to its end before the next begins, each decision
committed before the one that follows from it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Final, Protocol

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.fast_fence import BrokerProcess, DialOutcome
from tidelog.wire.errors import ApiError

# How long a broker's listener may take to accept or refuse before it counts as silent.
DIAL_TIMEOUT_S: Final = 1.0

# Connects to a broker's listener, given its id, host and port, and tells what came of it.
Dial = Callable[[int, str, int, float], Awaitable[DialOutcome]]
Decide = Callable[..., Decision[Any] | None]


class Submit(Protocol):
    """Makes a decision, and returns it when it is committed; None if there was nothing to decide."""

    async def __call__(self, decide: Decide) -> Decision[Any] | None: ...


class ControllerTimers:
    """Runs between `start` and `stop`, which follow the active controller's coming and going."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        controller: Controller,
        submit: Submit,
        write_noop: Callable[[], Awaitable[None]],
        dial: Dial,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._controller = controller
        self._submit = submit
        self._write_noop = write_noop
        self._dial = dial
        self._on_fatal = on_fatal
        self._active = False
        self._timer: asyncio.TimerHandle | None = None
        self._round: asyncio.Task[None] | None = None
        # In the order they began, which is that in which they are cancelled.
        self._dialling: dict[asyncio.Task[None], None] = {}
        self._balance_at_s = inf
        self._unclean_at_s = inf
        self._noop_at_s = inf

    def start(self) -> None:
        now_s = self._loop.time()
        self._active = True
        self._balance_at_s = now_s + self._controller.config.leader_imbalance_check_interval_seconds
        self._unclean_at_s = now_s + self._controller.config.unclean_leader_election_interval_ms / 1000
        self.wrote()
        self._schedule()

    def stop(self) -> None:
        """Nothing more is decided; a round that waits for its commit ends with it, or with its refusal."""
        self._active = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._dialling:
            task.cancel()

    def wrote(self) -> None:
        """Something was appended: the controller is not idle."""
        idle_ms = self._controller.config.metadata_max_idle_interval_ms
        self._noop_at_s = self._loop.time() + idle_ms / 1000 if idle_ms > 0 else inf

    def changed(self) -> None:
        """Sessions, suspicions or configs may be others than when the timer was set."""
        if self._active and self._round is None:
            self._schedule()

    def elect_unclean_soon(self) -> None:
        """`unclean.leader.election.enable` may have changed (C6)."""
        self._unclean_at_s = self._loop.time()
        self.changed()

    # --- rounds ---

    def _schedule(self) -> None:
        due = (
            self._controller.sessions.next_expiry_s(),
            self._controller.fast_fence.next_due_s(),
            self._balance_at_s,
            self._unclean_at_s,
            self._noop_at_s,
        )
        at_s = min(each for each in due if each is not None)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at_s == inf else self._loop.call_at(at_s, self._start_round)

    def _start_round(self) -> None:
        self._timer = None
        if self._active and self._round is None:
            self._round = self._loop.create_task(self._run_round())
            self._round.add_done_callback(self._round_done)

    def _round_done(self, task: "asyncio.Task[None]") -> None:
        self._round = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ApiError):
            # The controller resigned while it waited for a commit.
            error = None
        if error is not None:
            self._on_fatal(error)
        elif self._active:
            self._schedule()

    async def _run_round(self) -> None:
        now_s = self._loop.time()
        controller = self._controller
        while await self._submit(controller.fence_stale_broker) is not None:
            pass
        for process in controller.fast_fence.dials(now_s):
            self._start_dialling(process)
        while await self._submit(controller.fence_refused_broker) is not None:
            pass
        if now_s >= self._balance_at_s:
            self._balance_at_s = now_s + controller.config.leader_imbalance_check_interval_seconds
            if controller.config.auto_leader_rebalance_enable:
                await self._until_done(controller.balance_leaders)
        if now_s >= self._unclean_at_s:
            self._unclean_at_s = now_s + controller.config.unclean_leader_election_interval_ms / 1000
            await self._until_done(controller.elect_unclean_leaders)
        if now_s >= self._noop_at_s:
            await self._write_noop()
            self.wrote()

    async def _until_done(self, decide: Decide) -> None:
        """Such a decision is bounded; it says whether it left something."""
        decision = await self._submit(decide)
        while decision is not None and decision.response:
            decision = await self._submit(decide)

    # --- dialling (C2) ---

    def _start_dialling(self, process: BrokerProcess) -> None:
        task = self._loop.create_task(self._dial_broker(process))
        self._dialling[task] = None
        task.add_done_callback(self._dialling.pop)

    async def _dial_broker(self, process: BrokerProcess) -> None:
        registered = self._controller.image.brokers.get(process.broker_id)
        listeners = () if registered is None else registered.listeners
        outcomes = await asyncio.gather(
            *(self._dial(process.broker_id, at.host, at.port, DIAL_TIMEOUT_S) for at in listeners)
        )
        self._controller.fast_fence.dialled(process, taken_together(outcomes), self._loop.time())
        self.changed()


def taken_together(outcomes: Sequence[DialOutcome]) -> DialOutcome:
    """Of all listeners of one broker. A refusal counts when no listener says otherwise: one of them may be told to
    clients as an address that means something else here, such as localhost.
    """
    for told in (DialOutcome.REACHED, DialOutcome.SILENT):
        if told in outcomes:
            return told
    return DialOutcome.REFUSED if outcomes else DialOutcome.SILENT
