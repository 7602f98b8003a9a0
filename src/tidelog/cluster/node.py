"""One supervised node: its process, its state, and the commands that move it from one to the next."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tidelog.cluster import control_socket
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import WATCH_SOCKET, NodeLayout
from tidelog.cluster.links import OPTION, LinkLine, LinkWish
from tidelog.cluster.nursery import BROKER, Nursery
from tidelog.cluster.process import NodeProcess, describe_exit
from tidelog.cluster.states import ALIVE, TRANSITIONS, NodeState, NodeStatus

# Closing ten thousand logs cleanly is a hundred thousand fsyncs.
STOP_TIMEOUT_S: Final = 120.0
CONSOLE_CHECK_S: Final = 10.0
WATCH_OPTION: Final = "--watch-fd"
READY_OPTION: Final = "--ready-fd"

# (node, the state it left)
OnChange = Callable[["SupervisedNode", NodeState], None]


class SupervisedNode:
    """All changes of state go through `_move`, which knows the legal ones."""

    def __init__(
        self,
        layout: NodeLayout,
        command: Sequence[str],
        directory: Path,
        *,
        dies_with_us: bool,
        nursery: Nursery | None,
        wish: Callable[[], LinkWish],
        on_change: OnChange,
    ) -> None:
        self.layout = layout
        self.state = NodeState.STOPPED
        self.exit_status: int | None = None
        # What a paused node is when it goes on.
        self._resumes_as = NodeState.STARTING
        self._command = command
        self._directory = directory
        self._dies_with_us = dies_with_us
        self._nursery = nursery
        # What is wished of its links; only real nodes can be told.
        self._wish = wish
        self._line: LinkLine | None = None
        self._on_change = on_change
        self._process: NodeProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        # Set when the node reported that it serves, or ended, or when it is of a kind that does not report.
        self.may_serve = asyncio.Event()
        # The pipe on which the node reports that; None when it has, or has ended.
        self._report: int | None = None

    @property
    def id(self) -> int:
        return self.layout.id

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    def status(self) -> NodeStatus:
        pid = self._process.pid if self._process is not None and self.alive else None
        return NodeStatus(id=self.id, pid=pid, port=self.layout.port, state=self.state.value, roles=self.layout.roles)

    def last_words(self) -> str:
        return self._process.last_words() if self._process is not None else ""

    def story(self) -> str:
        """Why the node is not there, for a person: how it ended and what it said last."""
        how = "never started" if self.exit_status is None else describe_exit(self.exit_status)
        words = self.last_words().splitlines()
        return f"node {self.id}: {how}" + (f": {words[-1].strip()}" if words else "")

    async def start(self) -> None:
        """Starts the process; it serves some time later (`mark_running`)."""
        if self.alive:
            raise ClusterError(f"node {self.id} is already {self.state.value}")
        await self.wait_gone()
        self._move(NodeState.STARTING)
        self.may_serve.clear()
        self.exit_status = None
        spawning = asyncio.ensure_future(self._spawn(self._directory / "console.log"))
        cancelled: asyncio.CancelledError | None = None
        try:
            await asyncio.wait((spawning,))
        except asyncio.CancelledError as error:
            # The process may run already. `stop` and `kill` must find it, or it outlives them and writes its files.
            cancelled = error
            await asyncio.wait((spawning,))
        try:
            self._process = spawning.result()
        except BaseException:
            self._process = None
            self._move(NodeState.CRASHED)
            raise
        (self._directory / "node.pid").write_text(f"{self._process.pid}\n")
        self._watcher = asyncio.create_task(self._watch(self._process), name=f"node-{self.id}")
        if cancelled is not None:
            raise cancelled

    async def _spawn(self, console: Path) -> NodeProcess:
        if tuple(self._command[: len(BROKER)]) != BROKER:
            self.may_serve.set()
            return await NodeProcess.spawn(self._command, console, dies_with_us=self._dies_with_us)
        line = LinkLine()
        watchers = control_socket.listen(self._directory / WATCH_SOCKET)
        ready, report = os.pipe()
        inherit = {OPTION: line.fd, WATCH_OPTION: watchers.fileno(), READY_OPTION: report}
        try:
            if self._nursery is None:
                process = await NodeProcess.spawn(
                    self._command, console, dies_with_us=self._dies_with_us, inherit=inherit
                )
            else:
                arguments = self._command[len(BROKER) :]
                process = await NodeProcess.fork(
                    self._nursery, arguments, console, f"tidelog-node-{self.id}", inherit=inherit
                )
        except BaseException:
            line.close()
            os.close(ready)
            raise
        finally:
            # Only the node has these now: when it ends, connections to it are refused, and the pipe ends.
            watchers.close()
            os.close(report)
        self._report = ready
        asyncio.get_running_loop().add_reader(ready, self._on_report)
        await line.open(self._wish())
        self._line = line
        return process

    def _on_report(self) -> None:
        """It serves, or it ended: both are worth a look."""
        if self._report is not None:
            asyncio.get_running_loop().remove_reader(self._report)
            os.close(self._report)
            self._report = None
        self.may_serve.set()

    async def tell_links(self) -> None:
        """After the wish has changed. A node that is down hears of it when it starts, a paused one when it goes on."""
        if self._line is not None and self.alive:
            await self._line.set(self._wish(), wait=self.state is not NodeState.PAUSED)

    def mark_running(self) -> None:
        if self.state is NodeState.STARTING:
            self._move(NodeState.RUNNING)
        elif self.state is NodeState.PAUSED:
            # It had answered when it was paused.
            self._resumes_as = NodeState.RUNNING

    async def kill(self) -> None:
        """SIGKILL, also to a paused node; returns when the process is gone."""
        process = self._live_process()
        self._move(NodeState.KILLED)
        process.signal(signal.SIGKILL)
        await self.wait_gone()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """SIGTERM and the time to shut down in order; False when it had to be killed after all."""
        process = self._live_process()
        paused = self.state is NodeState.PAUSED
        if self.state is not NodeState.STOPPING:
            self._move(NodeState.STOPPING)
            process.signal(signal.SIGTERM)
            if paused:
                process.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(timeout_s):
                await self.wait_gone()
        except TimeoutError:
            if self.state is NodeState.STOPPING:
                await self.kill()
            return False
        return True

    def pause(self) -> None:
        process = self._live_process()
        if self.state not in (NodeState.RUNNING, NodeState.STARTING):
            already = "already " if self.state is NodeState.PAUSED else ""
            raise ClusterError(f"node {self.id} is {already}{self.state.value}")
        self._resumes_as = self.state
        self._move(NodeState.PAUSED)
        process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        process = self._live_process()
        if self.state is not NodeState.PAUSED:
            raise ClusterError(f"node {self.id} is not paused but {self.state.value}")
        self._move(self._resumes_as)
        process.signal(signal.SIGCONT)

    async def wait_gone(self) -> None:
        # Shielded: whoever gives up waiting must not cancel the only one who reaps the process.
        if self._watcher is not None:
            await asyncio.shield(self._watcher)

    def _live_process(self) -> NodeProcess:
        if self._process is None or not self.alive:
            raise ClusterError(f"node {self.id} is not running: its state is {self.state.value}")
        return self._process

    async def _watch(self, process: NodeProcess) -> None:
        waiting = asyncio.ensure_future(process.wait())
        while not waiting.done():
            await asyncio.wait((waiting,), timeout=CONSOLE_CHECK_S)
            process.bound_console()
        self.exit_status = waiting.result()
        self._on_report()
        if self._line is not None:
            self._line.close()
            self._line = None
        (self._directory / "node.pid").unlink(missing_ok=True)
        if self.state is NodeState.STOPPING:
            self._move(NodeState.STOPPED)
        elif self.state is not NodeState.KILLED:
            self._move(NodeState.CRASHED)

    def _move(self, new: NodeState) -> None:
        old = self.state
        assert new in TRANSITIONS[old], f"node {self.id}: {old.value} -> {new.value}"
        self.state = new
        self._on_change(self, old)
