"""What the workloads of one run share: the cluster as a client sees it, and where they tell what happened."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.tasks import ended
from tidelog.sim.checks.watch import Watch
from tidelog.sim.clock import START_MS
from tidelog.sim.cluster import SimCluster
from tidelog.sim.trace import Trace

TOPIC: Final = "orders"
RETRY_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Office:
    """`partitions` are those of `TOPIC`, which everybody writes to and reads from."""

    cluster: SimCluster
    watch: Watch
    trace: Trace
    seed: int
    hurried: Callable[[], bool] = lambda: True
    """Whether there is something to be seen, so that everybody should write and read as fast as they can."""
    due: Callable[[], float] = lambda: 0.0
    """How many batches should be acknowledged by now."""
    partitions: int = 3
    damaged: Callable[[], bool] = lambda: False
    """Whether a leader may have read something else from its disk than was written there, in answers on their way."""

    def rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    def client(self, name: str, *, retry_s: float = RETRY_S) -> Client:
        return Client(
            [Address(host, port) for host, port in self.cluster.bootstrap()],
            settings=ConnectionSettings(connect_timeout_s=2.0),
            retry_timeout_s=retry_s,
            rng=self.rng(f"client of {name}"),
        )

    def now_ms(self) -> int:
        return START_MS + int(self.cluster.loop.time() * 1000)


async def dismiss(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Ends them. Who had ended before by an error did not work all the time, and its error is raised."""
    over = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await ended(tasks)
    for task in over:
        task.result()
