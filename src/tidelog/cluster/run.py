"""A supervised cluster from start to end: for `tidelog up`, the demo and `tidelog.testing.Cluster`."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidelog.cluster.control import ControlServer
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.readiness import Probe, probe_cluster
from tidelog.cluster.supervisor import OnEvent, Supervisor, ignore_events

FAILED: Final = 1
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ignore_down() -> None:
    """For clusters that end when their block does, whatever `tidelog down` asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where a cluster that serves is found."""

    bootstrap: str
    ui: str | None
    # Of the first node.
    metrics: str
    data: str

    @classmethod
    def of(cls, supervisor: Supervisor) -> "Ready":
        return cls(
            bootstrap=supervisor.bootstrap,
            ui=None if supervisor.page is None else supervisor.page.url,
            metrics=supervisor.layout.nodes[0].metrics_url,
            data=str(supervisor.directory),
        )

    def line(self) -> str:
        """What scripts wait for; `-` stands for what is off."""
        return "ready " + " ".join(f"{name}={value or '-'}" for name, value in asdict(self).items())


@asynccontextmanager
async def supervised(
    request: ClusterRequest,
    *,
    end: Callable[[Supervisor], Awaitable[object]],
    on_down: Callable[[], None] = ignore_down,
    on_event: OnEvent = ignore_events,
    probe: Probe = probe_cluster,
) -> AsyncIterator[Supervisor]:
    """A supervisor that `chaos` and `status` reach; its nodes are not started yet.

    `end` stops or kills them when the block ends; then whoever asked for that is told, and everything is let go.
    """
    supervisor = await Supervisor.create(request, on_event=on_event, probe=probe)
    control = ControlServer(supervisor, on_down)
    try:
        await control.start()
        yield supervisor
    finally:
        await end(supervisor)
        control.cluster_stopped()
        await control.close()
        await supervisor.close()


async def run_cluster(
    request: ClusterRequest,
    *,
    on_ready: Callable[[Ready], None],
    on_event: OnEvent,
    probe: Probe = probe_cluster,
) -> None:
    """What `tidelog up` runs, in the foreground or behind it.

    Until `down`, ctrl-C or SIGTERM; a second signal kills instead of stopping. `on_ready` gets the addresses.
    ClusterError when it ends before it was ready; then a directory that held no cluster before is as it was.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    force = asyncio.Event()

    # Of the first signal, as a shell reports it.
    status = FAILED

    def on_signal(number: signal.Signals) -> None:
        nonlocal status
        if not stop.is_set():
            status = 128 + number
        (force if stop.is_set() else stop).set()

    # Under `nohup` the end of the terminal is none of our business.
    heeded = [number for number in STOP_SIGNALS if number != signal.SIGHUP or not _is_ignored(number)]
    for number in heeded:
        loop.add_signal_handler(number, on_signal, number)
    try:
        async with supervised(
            request,
            end=lambda supervisor: stop_or_kill(supervisor, force),
            on_down=stop.set,
            on_event=on_event,
            probe=probe,
        ) as supervisor:
            if not await _until(supervisor.start_all(), stop):
                raise ClusterError("stopped before the cluster was ready", status=status)
            on_ready(Ready.of(supervisor))
            await stop.wait()
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


async def _until(work: Coroutine[Any, Any, object], stop: asyncio.Event) -> bool:
    """Whether `work` finished before `stop` was set; its failure is raised."""
    task = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
            return True
        return False
    finally:
        for pending in (task, stopping):
            pending.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def stop_or_kill(supervisor: Supervisor, force: asyncio.Event) -> None:
    """Stops all nodes in order. Kills them when `force` is set."""
    if not await _until(supervisor.stop_all(), force):
        await supervisor.kill_all()
