"""One machine of the simulated world: a host on the network, a disk, a clock, and at most one process.

The process is any coroutine over the ports it is handed. It can end by itself, be asked to end, be killed between two
of its callbacks, lose power, be paused. Nothing in it can tell that it is not alone in the world.
"""

import asyncio
import enum
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidelog.sim.clock import SimClock
from tidelog.sim.disk import ProcessGone, SimDisk, Torn
from tidelog.sim.disk_faults import DiskFaults
from tidelog.sim.links import Cut, Delay
from tidelog.sim.loop import VirtualLoop
from tidelog.sim.node_loop import NodeLoop
from tidelog.sim.offload import SimOffload

T = TypeVar("T")


class NotRunning(Exception):
    """What was asked for needs a process that is not there, or went away meanwhile."""


class State(enum.Enum):
    """Of a machine's process.

    OFF -start-> RUNNING; RUNNING -the program ends, kill or power cut-> OFF; RUNNING -pause-> PAUSED -resume-> RUNNING;
    PAUSED -kill or power cut-> OFF.
    """

    OFF = "off"
    RUNNING = "running"
    PAUSED = "paused"


class End(enum.Enum):
    """How a process ended."""

    RETURNED = "returned"
    RAISED = "raised"
    KILLED = "killed"
    POWER_CUT = "power cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a process, and what it left behind: tasks of an orderly end that nobody had waited for."""

    end: End
    error: BaseException | None = None
    left_tasks: tuple[str, ...] = ()
    unhandled: tuple[str, ...] = ()
    asked: bool = False
    """Whether somebody had asked it to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a process is handed; all that it knows of the world."""

    loop: NodeLoop
    disk: SimDisk
    wall_clock: SimClock
    offload: SimOffload
    rng: random.Random
    asked_to_stop: asyncio.Event


Program = Callable[[Ports], Coroutine[Any, Any, None]]


class Machine:
    """See the module. `seed` names all its randomness: that of its processes, one by one, and that of its faults."""

    def __init__(self, world: VirtualLoop, host: str, seed: str) -> None:
        self.host: Final = host
        self._ports: Ports | None = None
        self.disk_faults: Final = DiskFaults()
        self.disk = SimDisk()
        self.disk.fault = self.disk_faults
        self.clock: Final = SimClock(world)
        self.exits: list[Exit] = []
        self.before_end: Callable[[], None] = lambda: None
        """Called when a process is about to be gone, while all of it can still be looked at."""
        self._world = world
        self._seed = seed
        self.rng: Final = random.Random(f"{seed} machine")
        """Of what happens to the machine, not of its processes."""
        self._starts = 0
        self._asked = False
        self._ended: asyncio.Future[Exit] | None = None
        self._main: asyncio.Task[None] | None = None
        self._no_power: Cut | None = None
        self._dead: list[NodeLoop] = []
        self._disk_delay: Delay | None = None

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        if self._ports is None:
            return State.OFF
        return State.PAUSED if self._ports.loop.paused else State.RUNNING

    @property
    def ports(self) -> Ports:
        if self._ports is None:
            raise NotRunning(f"no process runs on {self.host}")
        return self._ports

    @property
    def starts(self) -> int:
        return self._starts

    # --- the process --------------------------------------------------------------------------------------------------

    def start(self, program: Program) -> asyncio.Future[Exit]:
        """Power on if need be, and the program begins. The future is the world's: how the process ends, some time."""
        assert self._ports is None, f"a process already runs on {self.host}"
        if self._no_power is not None:
            if self._no_power in self._world.network.cuts:
                # Or all cuts were healed meanwhile.
                self._world.network.heal(self._no_power)
            self._no_power = None
        self._starts += 1
        loop = NodeLoop(self._world, self.host)
        rng = random.Random(f"{self._seed} start {self._starts}")
        ports = self._ports = Ports(
            loop=loop,
            disk=self.disk,
            wall_clock=self.clock,
            offload=SimOffload(rng, self._disk_delay),
            rng=rng,
            asked_to_stop=asyncio.Event(),
        )
        ended = self._ended = self._world.create_future()
        # Held here, as `asyncio.run` does: one that waits for a peer that is cut off is held by nothing else.
        main = self._main = loop.create_task(program(ports), name="main")
        # In the world's time, not the process's: its last callback may be on the stack.
        main.add_done_callback(lambda task: self._world.call_soon(self._returned, ports, task))
        return ended

    def ended(self) -> asyncio.Future[Exit]:
        """How the process that runs now ends, some time."""
        if self._ended is None:
            raise NotRunning(f"no process runs on {self.host}")
        return self._ended

    def ask_to_stop(self) -> None:
        """As SIGTERM: the process hears of it when it next runs."""
        self._asked = True
        self.ports.loop.call_soon(self.ports.asked_to_stop.set)

    def call(self, work: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Runs it inside the process, on its loop; the future is the world's. NotRunning if the process ends first."""
        ports, ended = self.ports, self.ended()
        answer: asyncio.Future[T] = self._world.create_future()

        async def inside() -> T:
            return await work()

        def on_done(task: "asyncio.Task[T]") -> None:
            if answer.done():
                return
            if task.cancelled():
                answer.set_exception(NotRunning(f"cancelled on {self.host}"))
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())

        def on_end(_: "asyncio.Future[Exit]") -> None:
            if not answer.done():
                answer.set_exception(NotRunning(f"the process on {self.host} ended"))

        ports.loop.create_task(inside(), name="call").add_done_callback(on_done)
        ended.add_done_callback(on_end)
        answer.add_done_callback(lambda _: ended.remove_done_callback(on_end))
        return answer

    def pause(self) -> None:
        self.ports.loop.pause()

    def resume(self) -> None:
        self.ports.loop.resume()

    def stall(self, seconds: float) -> None:
        """Paused for that long, unless somebody else resumes it: a long collection, a blocking system call."""
        loop = self.ports.loop
        loop.pause()
        self._world.call_later(seconds, loop.resume)

    def kill(self) -> None:
        """As SIGKILL: its files are as it wrote them, its peers see resets."""
        self._vanish(End.KILLED, silently=False)

    def power_cut(self, *, lose_entries: bool = True) -> None:
        """The machine goes dark: unsynced bytes may be lost, nobody on the network is told."""
        if self._ports is not None:
            self._vanish(End.POWER_CUT, silently=True)
        if self._no_power is None:
            self._no_power = self._world.network.apply(Cut.isolate(self.host))
        self.disk.crash(self.rng, lose_entries=lose_entries)

    def kill_inside(self) -> ProcessGone:
        """Kills the process from within one of its own calls; the caller raises what it gets."""
        self.kill()
        return ProcessGone(f"killed on {self.host}")

    def kill_torn(self) -> ProcessGone:
        """The same inside a write: half of it is on the disk."""
        self.kill()
        return Torn(f"killed on {self.host}")

    def slow_disk(self, delay: Delay | None) -> None:
        """Blocking work takes so long from now on, also for processes to come; None makes it fast again."""
        self._disk_delay = delay
        if self._ports is not None:
            self._ports.offload.delay = delay

    def new_disk(self) -> SimDisk:
        """Somebody puts another disk in: empty, with the same hook for faults."""
        assert self._ports is None
        disk = SimDisk()
        disk.fault, disk.on_write, disk.on_rename = self.disk_faults, self.disk.on_write, self.disk.on_rename
        self.disk = disk
        return disk

    def close(self) -> None:
        """The end of the world: lets go of every dead process. A live one is killed."""
        if self._ports is not None:
            self.kill()
        for loop in self._dead:
            loop.bury()
        self._dead.clear()

    def _returned(self, ports: Ports, task: "asyncio.Task[None]") -> None:
        if self._ports is not ports:
            return
        left = tuple(sorted(other.get_name() for other in asyncio.all_tasks(ports.loop)))
        error = None if task.cancelled() else task.exception()
        end = End.RETURNED if error is None else End.RAISED
        self._vanish(end, silently=False, error=error, left_tasks=left)

    def _vanish(
        self,
        end: End,
        *,
        silently: bool,
        error: BaseException | None = None,
        left_tasks: tuple[str, ...] = (),
    ) -> None:
        self.before_end()
        ports, ended = self.ports, self.ended()
        unhandled = tuple(ports.loop.unhandled)
        told = Exit(end=end, error=error, left_tasks=left_tasks, unhandled=unhandled, asked=self._asked)
        self._asked = False
        ports.loop.kill()
        self._dead.append(ports.loop)
        self._world.network.process_gone(ports.loop, silently=silently)
        # What a killed process has written stays: the page cache is the kernel's.
        self.disk = ports.disk.hand_over()
        self._ports = self._ended = None
        self.exits.append(told)
        if not ended.done():
            ended.set_result(told)
