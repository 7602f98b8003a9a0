"""The way from one host to another: how long it takes, and whether anything gets through."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.sim.transport import MemoryTransport

# From which host, to which, on connections to which port: whether nothing gets through.
Blocks = Callable[[str, str, int], bool]


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a packet takes: at least `least_s`, on average `mean_s` more, seldom much more."""

    least_s: float
    mean_s: float

    def draw(self, rng: random.Random) -> float:
        # As `rng.expovariate(1.0)`, one call less: every packet draws.
        return self.least_s - log(1.0 - rng.random()) * self.mean_s


class Link:
    """One direction between two hosts, for connections to one port of either.

    While it is blocked bytes wait (a sender sends again), and nobody is told.
    """

    __slots__ = (
        "_rng",
        "_waiting_connects",
        "_waiting_streams",
        "blocked",
        "blocked_by",
        "delay",
        "direct",
        "port",
        "source",
        "target",
    )

    def __init__(self, source: str, target: str, port: int, delay: Delay | None, seed: str) -> None:
        self.source: Final = source
        self.target: Final = target
        self.port: Final = port
        self.delay = delay
        self.blocked_by = 0
        self.blocked = False
        self._rng = random.Random(f"{seed} link {source} {target} {port}")
        self._waiting_streams: dict[MemoryTransport, None] = {}
        self._waiting_connects: list[asyncio.Future[None]] = []
        self.direct = delay is None
        """Bytes arrive at once."""

    def draw_delay_s(self) -> float:
        return 0.0 if self.delay is None else self.delay.draw(self._rng)

    def set_delay(self, delay: Delay | None) -> None:
        self.delay = delay
        self.direct = delay is None and not self.blocked

    def block(self) -> None:
        self.blocked_by += 1
        self.blocked = True
        self.direct = False

    def unblock(self) -> None:
        assert self.blocked_by > 0
        self.blocked_by -= 1
        if self.blocked_by:
            return
        self.blocked = False
        self.direct = self.delay is None
        streams, self._waiting_streams = self._waiting_streams, {}
        for stream in streams:
            stream.resume_sending()
        connects, self._waiting_connects = self._waiting_connects, []
        for waiter in connects:
            if not waiter.done():
                waiter.set_result(None)

    def wait_to_send(self, stream: "MemoryTransport") -> None:
        self._waiting_streams[stream] = None

    async def travel(self, loop: asyncio.AbstractEventLoop) -> None:
        """One packet's way, sent again until it gets through."""
        while True:
            if self.blocked:
                waiter: asyncio.Future[None] = loop.create_future()
                self._waiting_connects.append(waiter)
                await waiter
            delay_s = self.draw_delay_s()
            if delay_s:
                await asyncio.sleep(delay_s)
            if not self.blocked:
                return


class Cut:
    """A fault of the network between hosts that are named; `name` says it in a trace."""

    def __init__(self, name: str, blocks: Blocks) -> None:
        self.name = name
        self.blocks = blocks

    def on_port(self, port: int) -> "Cut":
        """The same for connections to this port only: a broker cut from the controllers and from nobody else."""
        blocks = self.blocks
        return Cut(f"{self.name} on {port}", lambda source, target, at: at == port and blocks(source, target, at))

    @classmethod
    def partition(cls, groups: Sequence[Collection[str]]) -> "Cut":
        """No byte goes from one group to another; hosts of no group talk to all."""
        group_of = {host: index for index, group in enumerate(groups) for host in group}
        name = "partition " + " | ".join(",".join(sorted(group)) for group in groups)

        def blocks(source: str, target: str, port: int) -> bool:
            if source not in group_of or target not in group_of:
                return False
            return group_of[source] != group_of[target]

        return cls(name, blocks)

    @classmethod
    def bridge(cls, left: Collection[str], middle: str, right: Collection[str]) -> "Cut":
        """Two sides that see the host in the middle and not each other."""
        name = f"bridge {','.join(sorted(left))} - {middle} - {','.join(sorted(right))}"
        return cls(name, cls.partition([left, right]).blocks)

    @classmethod
    def one_way(cls, sources: Collection[str], targets: Collection[str]) -> "Cut":
        """Nothing from these reaches those; the other direction works."""
        name = f"one-way {','.join(sorted(sources))} -> {','.join(sorted(targets))}"
        return cls(name, lambda source, target, port: source in sources and target in targets)

    @classmethod
    def isolate(cls, host: str) -> "Cut":
        """The host is alone; a machine without power looks the same."""
        return cls(f"isolate {host}", lambda source, target, port: (source == host) != (target == host))
