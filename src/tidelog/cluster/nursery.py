"""The supervisor's side of the process that forks its nodes (`tidelog.broker.nursery`)."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from tidelog.cluster.errors import ClusterError

# A nursery can run a command that begins like this.
BROKER: Final = (sys.executable, "-m", "tidelog.broker")
# A nursery only forks. One that takes so long to answer hangs, even while the machine is busy.
ANSWER_S: Final = 60.0
_STOP_S: Final = 5.0
_GONE: Final = "the process that forks the nodes has ended"
_MAX_ANSWER_BYTES: Final = 64 * 1024


class PidfdProcess:
    """A process that another one reaps. A pidfd names this process for good, a process id may be reused."""

    def __init__(self, pidfd: int) -> None:
        self._pidfd = pidfd
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, self._on_end)

    @property
    def alive(self) -> bool:
        return self._pidfd >= 0

    def kill(self) -> None:
        try:
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return  # it has ended, and `_on_end` is about to run

    async def wait(self) -> None:
        await self._ended.wait()

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._ended.set()


class Breeder(Protocol):
    """Starts the process of a nursery."""

    async def start(self, orders: socket.socket) -> PidfdProcess:
        """The process has the other end of the socket, which the caller closes. ClusterError if there is none."""
        ...

    def release(self) -> None:
        """The process that `start` returned has ended."""
        ...


class OwnProcess:
    """Starts a new interpreter for the nursery. `tied`: it ends when the thread that started it ends."""

    def __init__(self, *, tied: bool) -> None:
        self._tied = tied
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, orders: socket.socket) -> PidfdProcess:
        parent = os.getpid() if self._tied else 0
        command = [sys.executable, "-m", "tidelog.broker.nursery", str(orders.fileno()), str(parent)]
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(orders.fileno(),),
            )
        except OSError as error:
            raise ClusterError(f"cannot start {command[0]}: {error.strerror}") from error
        return PidfdProcess(os.pidfd_open(self._process.pid))

    def release(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None


class NurseryChild:
    """A node that the nursery forked; it has the interface of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        try:
            # The nursery reaps the process, and its id may then be reused: a pidfd keeps to this process.
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1  # it has ended already; the nursery's next message has its status

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
        """Without a nursery nothing reports the exit status; the pidfd still shows the end."""
        if self._pidfd < 0:
            self.ended(status)
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self.ended, status)


class Nursery:
    """Forks the nodes of one cluster. It is started at the first need or before, and again if it has died.

    Lives on one event loop. A nursery that dies takes the nodes that are tied to it with it.
    """

    def __init__(self, *, tied: bool, breeder: Breeder | None = None) -> None:
        self._tied = tied
        self._breeder = breeder if breeder is not None else OwnProcess(tied=tied)
        self._process: PidfdProcess | None = None
        self._orders: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._children: dict[int, NurseryChild] = {}
        # The node that `run` waits for, or why there is none; answers come in the order of the orders.
        self._started: asyncio.Future[NurseryChild | str] | None = None
        self._one_at_a_time = asyncio.Lock()

    def start(self) -> None:
        """Begins to start it; `run` waits for it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="start-nursery")

    async def _start(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with its:
                self._process = await self._breeder.start(its)
        except BaseException:
            ours.close()
            raise
        self._orders = ours
        asyncio.get_running_loop().add_reader(ours, self._read, ours)
        self._ending = asyncio.create_task(self._end(self._process), name="nursery")

    async def _until_started(self) -> None:
        """Raises what prevented the start; the next one is a new attempt."""
        assert self._starting is not None
        try:
            await asyncio.shield(self._starting)
        except Exception:
            self._starting = None
            raise

    async def run(
        self, arguments: Sequence[str], *, output: Path, name: str, inherit: Mapping[str, int] | None = None
    ) -> NurseryChild:
        """Starts `python -m tidelog.broker ARGUMENTS…` with its output appended to a file.

        `inherit` maps an option to a descriptor of ours: the node gets the descriptor, and the option with its number.
        """
        inherit = inherit or {}
        order = {
            "run": list(arguments),
            "output": str(output),
            "name": name,
            "tied": self._tied,
            "inherit": list(inherit),
        }
        gone = ClusterError(f"cannot start {name}: {_GONE}")
        async with self._one_at_a_time:
            self.start()
            await self._until_started()
            if self._orders is None:
                raise gone
            self._started = asyncio.get_running_loop().create_future()
            try:
                socket.send_fds(self._orders, [json.dumps(order).encode()], list(inherit.values()))
                async with asyncio.timeout(ANSWER_S):
                    answer = await self._started
            except (BrokenPipeError, ConnectionResetError) as error:
                raise gone from error
            except TimeoutError as error:
                # It may answer later, in the middle of something else: only its end is clear.
                self.kill()
                raise ClusterError(
                    f"cannot start {name}: the process that forks the nodes did not answer within {ANSWER_S:g} s "
                    "and was killed, and the running nodes of this cluster with it"
                ) from error
            finally:
                self._started = None
        if isinstance(answer, str):
            raise ClusterError(f"cannot start {name}: {answer}")
        return answer

    async def close(self) -> None:
        """Ends the nursery; nodes that are tied to it end too."""
        if self._starting is None:
            return
        try:
            await self._until_started()
        except ClusterError:
            # `run` reports it to a caller that needs the nursery.
            return
        if self._process is None or self._ending is None:
            return
        if self._orders is not None:
            # Not only closed: a process that the user forked may hold a copy of the socket.
            self._orders.shutdown(socket.SHUT_RDWR)
        try:
            async with asyncio.timeout(_STOP_S):
                await asyncio.shield(self._ending)
        except TimeoutError:
            self.kill()
            await self._ending

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def _end(self, process: PidfdProcess) -> None:
        await process.wait()
        # Reports of ended nodes may still wait in the socket.
        if self._orders is not None:
            self._read(self._orders)
        if self._orders is not None:
            self._close_socket(self._orders)
        self._breeder.release()
        self._process = self._starting = None
        children = list(self._children.values())
        self._children.clear()
        for child in children:
            child.watch(-signal.SIGKILL)
        self._tell_starter(_GONE)
        if self._tied:
            # They end now. Until then they may write to their directory, which the caller is about to remove.
            await asyncio.gather(*(child.wait() for child in children))

    def _read(self, orders: socket.socket) -> None:
        """Everything that has come."""
        while True:
            try:
                answer = orders.recv(_MAX_ANSWER_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                answer = b""
            if not answer:
                self._close_socket(orders)
                return
            self._heard(json.loads(answer))

    def _close_socket(self, orders: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(orders)
        orders.close()
        self._orders = None

    def _heard(self, message: dict[str, Any]) -> None:
        if "started" in message:
            child = NurseryChild(message["started"])
            self._children[child.pid] = child
            if not self._tell_starter(child):
                # `run` was cancelled, and nothing else would end this node. It may have ended by itself.
                with suppress(ProcessLookupError):
                    child.send_signal(signal.SIGKILL)
        elif "failed" in message:
            self._tell_starter(message["failed"])
        else:
            self._children.pop(message["ended"]).ended(message["status"])

    def _tell_starter(self, answer: NurseryChild | str) -> bool:
        """Whether anything still waits for the answer."""
        if self._started is None or self._started.done():
            return False
        self._started.set_result(answer)
        return True
