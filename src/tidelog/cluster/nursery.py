"""The process that forks nodes for a supervisor (`tidelog.broker.nursery`), seen from the supervisor."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.process import CHILD

# What a command must begin with to be run by a nursery instead.
BROKER: Final = (sys.executable, "-m", "tidelog.broker")
_STOP_S: Final = 5.0
_GONE: Final = "cannot start {name}: the process that starts nodes ended"


class NurseryChild:
    """A process that the nursery forked; what `asyncio.subprocess.Process` is for one of our own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        try:
            # The nursery reaps the process, and then another may be given its id: a pidfd keeps to this one.
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1  # ended already; the nursery's next line says how

    def send_signal(self, number: int) -> None:
        if self._pidfd < 0:
            raise ProcessLookupError(f"process {self.pid} has ended")
        signal.pidfd_send_signal(self._pidfd, number)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def ended(self, status: int) -> None:
        if self.returncode is None:
            self.returncode = status
            if self._pidfd >= 0:
                asyncio.get_running_loop().remove_reader(self._pidfd)
                os.close(self._pidfd)
                self._pidfd = -1
            self._ended.set()

    def watch(self, status: int) -> None:
        """Without a nursery nobody can tell how it ends; that it ends can be seen."""
        if self._pidfd < 0:
            self.ended(status)
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self.ended, status)


class Nursery:
    """Started once, at the first need or before; started again should it have died."""

    def __init__(self, *, tied: bool) -> None:
        self._tied = tied
        self._process: asyncio.subprocess.Process | None = None
        self._orders: socket.socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._children: dict[int, NurseryChild] = {}
        # Answers come in the order of the orders.
        self._started: asyncio.Queue[NurseryChild | None] = asyncio.Queue(maxsize=1)
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Begins importing; `run` waits for the end of it."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tidelog.broker.nursery", str(its.fileno())]
        if self._tied:
            command = [sys.executable, "-I", "-S", CHILD, str(os.getpid()), "-1", *command]
        with its:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=(its.fileno(),),
            )
        self._orders = ours
        self._reader = asyncio.create_task(self._listen(self._process), name="nursery")

    async def run(
        self, arguments: Sequence[str], *, output: Path, name: str, inherit: Mapping[str, int] | None = None
    ) -> NurseryChild:
        """Starts `python -m tidelog.broker ARGUMENTS…` with its output appended to a file.

        `inherit` names descriptors of ours that it gets too, by the options that tell it their numbers.
        """
        inherit = inherit or {}
        order = {
            "run": list(arguments),
            "output": str(output),
            "name": name,
            "tied": self._tied,
            "inherit": list(inherit),
        }
        async with self._one_at_a_time:
            if self._process is None or self._process.returncode is not None:
                await self.start()
            assert self._orders is not None
            try:
                socket.send_fds(self._orders, [json.dumps(order).encode()], list(inherit.values()))
            except (BrokenPipeError, ConnectionResetError) as error:
                raise ClusterError(_GONE.format(name=name)) from error
            child = await self._started.get()
        if child is None:
            raise ClusterError(_GONE.format(name=name))
        return child

    async def close(self) -> None:
        """Ends the nursery; nodes that are tied to it end too."""
        if self._process is None:
            return
        if self._orders is not None:
            self._orders.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        if self._reader is not None:
            await self._reader
        self._process = None

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._heard(json.loads(line))
        # It is gone, and those that are tied to it go now. Reaped first: whoever hears of them may start others.
        await process.wait()
        for child in self._children.values():
            child.watch(-signal.SIGKILL)
        self._children.clear()
        if self._one_at_a_time.locked():
            self._started.put_nowait(None)

    def _heard(self, message: dict[str, Any]) -> None:
        if "started" in message:
            child = NurseryChild(message["started"])
            self._children[child.pid] = child
            self._started.put_nowait(child)
        else:
            self._children.pop(message["ended"]).ended(message["status"])
