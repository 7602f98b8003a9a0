"""A supervised cluster from start to end: what `tidelog up` runs, in the foreground or behind it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tidelog.cluster.control import ControlServer
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.readiness import Probe, probe_cluster
from tidelog.cluster.supervisor import OnEvent, Supervisor

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ready_line(supervisor: Supervisor) -> str:
    """The line scripts wait for; `-` stands for what is off."""
    ui = "-" if supervisor.page is None else supervisor.page.url
    metrics = supervisor.layout.nodes[0].metrics_url
    return f"ready bootstrap={supervisor.bootstrap} ui={ui} metrics={metrics} data={supervisor.directory}"


async def run_cluster(
    request: ClusterRequest,
    *,
    on_ready: Callable[[str], None],
    on_event: OnEvent,
    probe: Probe = probe_cluster,
) -> None:
    """Runs until `down`, ctrl-C or SIGTERM; a second signal kills instead of stopping. `on_ready` is told the line."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    force = asyncio.Event()

    def on_signal() -> None:
        (force if stop.is_set() else stop).set()

    # Under `nohup` the end of the terminal is none of our business.
    heeded = [number for number in STOP_SIGNALS if number != signal.SIGHUP or not _is_ignored(number)]
    for number in heeded:
        loop.add_signal_handler(number, on_signal)
    try:
        supervisor = await Supervisor.create(request, on_event=on_event, probe=probe)
        control = ControlServer(supervisor, on_down=stop.set)
        try:
            await control.start()
            if await _until(supervisor.start_all(), stop):
                if supervisor.page is not None:
                    supervisor.page.start(supervisor.directory)
                on_ready(ready_line(supervisor))
                await stop.wait()
        finally:
            await _stop(supervisor, force)
            control.cluster_stopped()
            await control.close()
            if supervisor.page is not None:
                await supervisor.page.stop()
            supervisor.close()
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


async def _stop(supervisor: Supervisor, force: asyncio.Event) -> None:
    if not await _until(supervisor.stop_all(), force):
        await supervisor.kill_all()
