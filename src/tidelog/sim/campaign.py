"""One seed from beginning to end: a cluster starts, faults strike while somebody works with it, then quiet.

Everything follows from the seed and the settings: the same twice, whatever machine runs it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.sim.cluster import SimCluster
from tidelog.sim.faults.injector import Injector
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import ALL, PlannedFault, draw_plan
from tidelog.sim.trace import Trace
from tidelog.sim.witness import Witness
from tidelog.sim.writers import Writers

PROPERTIES: Final = {
    # The metadata lies apart, so that a voter can lose its logs without losing its vote.
    "log.dirs": "/data/a,/data/b",
    "metadata.log.dir": "/metadata",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # Clocks jump by days, and a record that retention took is not lost.
    "log.retention.ms": "-1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What, besides the seed, a run depends on."""

    brokers: int = 3
    controllers: int = 0
    profiles: Sequence[str] = (ALL,)
    seconds: float = 30.0
    mean_gap_s: float = 1.0
    quiet_timeout_s: float = 120.0
    writers: int = 4
    properties: dict[str, str] = field(default_factory=lambda: dict(PROPERTIES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run was. `digest` stands for all of it."""

    seed: int
    digest: str
    seconds: float
    steps: int
    counts: dict[str, int]
    faults: int
    acknowledged: int
    forgotten: int
    unhandled: list[str]
    plan: list[PlannedFault]


def run_seed(
    seed: int,
    settings: Settings | None = None,
    *,
    plan: list[PlannedFault] | None = None,
    sink: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs one seed, with the plan it draws or the one that is given."""
    settings = settings or Settings()
    if plan is None:
        plan = draw_plan(
            seed, KINDS, profiles=settings.profiles, seconds=settings.seconds, mean_gap_s=settings.mean_gap_s
        )
    with SimCluster(
        settings.brokers, controllers=settings.controllers, seed=seed, properties=settings.properties
    ) as cluster:
        trace = Trace(cluster.loop, lambda: cluster.loop.steps, sink)
        injector = Injector(cluster, seed, plan, trace)
        writers = Writers(cluster, trace, seed, count=settings.writers)
        cluster.on_metadata = Witness(trace, writers.on_unclean)
        cluster.run(_story(cluster, injector, writers, trace, settings))
        return Outcome(
            seed=seed,
            digest=trace.digest(),
            seconds=cluster.loop.time(),
            steps=cluster.loop.steps,
            counts=dict(trace.counts),
            faults=len(plan) - injector.skipped,
            acknowledged=writers.ledger.batches,
            forgotten=writers.ledger.forgotten,
            unhandled=cluster.unhandled(),
            plan=plan,
        )


async def _story(cluster: SimCluster, injector: Injector, writers: Writers, trace: Trace, settings: Settings) -> None:
    await cluster.start_all()
    trace.record("started")
    if settings.writers:
        await writers.begin()
    end = cluster.loop.time() + settings.seconds
    await injector.run()
    await asyncio.sleep(max(0.0, end - cluster.loop.time()))
    await injector.quiet(settings.quiet_timeout_s)
    if settings.writers:
        await writers.stop()
        await writers.check()
    trace.record("end_of_run")
