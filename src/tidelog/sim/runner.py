"""Many seeds: in several processes, added up, and the first that breaks made smaller."""

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from typing import Final

from tidelog.sim.campaign import Outcome, Settings, run_seed
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import ALL, PlannedFault
from tidelog.sim.logged import quiet
from tidelog.sim.witness import SNAPSHOT_FETCHED, SNAPSHOT_WRITTEN

ENOUGH_SEEDS: Final = 100
"""In a run of so many every kind of fault must have struck, and led to what faults lead to, at least once."""
SHRINKING_RUNS: Final = 60
_AHEAD: Final = 4


@dataclass(slots=True)
class Totals:
    """What happened in a run of seeds."""

    seeds: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    elections: int = 0
    unclean: int = 0
    isr_changes: int = 0
    truncations: int = 0
    snapshots: int = 0
    fetched_snapshots: int = 0
    acknowledged: int = 0
    forgotten: int = 0
    """Acknowledged records that an unclean election may have lost."""
    commits: int = 0
    read: int = 0

    def add(self, outcome: Outcome) -> None:
        counts = outcome.counts
        self.seeds += 1
        self.seconds += outcome.seconds
        self.faults.update({kind: counts[kind] for kind in KINDS if kind in counts})
        self.elections += outcome.elections
        self.unclean += outcome.unclean
        self.isr_changes += counts.get("isr", 0)
        self.truncations += outcome.truncations
        self.snapshots += counts.get(SNAPSHOT_WRITTEN, 0)
        self.fetched_snapshots += counts.get(SNAPSHOT_FETCHED, 0)
        self.acknowledged += outcome.acknowledged
        self.forgotten += outcome.forgotten
        self.commits += outcome.commits
        self.read += outcome.read

    def never_happened(self, settings: Settings) -> list[str]:
        """Kinds of faults, and what they lead to, that should have happened in so many seeds, and did not."""
        if self.seeds < ENOUGH_SEEDS:
            return []
        whole = ALL in settings.profiles
        chosen = [kind.name for kind in KINDS.values() if whole or kind.profile in settings.profiles]
        missing = [name for name in chosen if not self.faults[name]]
        if whole:
            led_to = {
                "elections": self.elections,
                "commits of a group": self.commits,
                "unclean elections": self.unclean,
                "ISR changes": self.isr_changes,
                "truncations": self.truncations,
                "snapshots of the metadata": self.snapshots,
                "snapshots that were fetched": self.fetched_snapshots,
            }
            missing += [name for name, times in led_to.items() if not times]
        return missing

    def merge(self, other: "Totals") -> None:
        """Adds what happened in another run."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def run_seeds(seeds: Iterable[int], settings: Settings, *, processes: int = 1) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, each as soon as it and those before it are there."""
    work = partial(run_quietly, settings=settings)
    if processes <= 1:
        yield from map(work, seeds)
        return
    others = set(multiprocessing.active_children())
    # Fresh interpreters: nothing of this one may reach a run.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = iter(seeds)
        try:
            with _deaf_to_interrupts():
                under_way = [pool.submit(work, seed) for seed in islice(waiting, processes * _AHEAD)]
            while under_way:
                yield under_way.pop(0).result()
                under_way += [pool.submit(work, seed) for seed in islice(waiting, 1)]
        except BaseException:
            # A seed in progress may need half a minute. After ctrl-C, or a seed that failed, its result is not needed.
            pool.shutdown(wait=False, cancel_futures=True)
            workers = set(multiprocessing.active_children()) - others
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join()
            raise


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that start meanwhile never hear a ctrl-C: a terminal sends it to all of them, and each would tell where
    it was. They end with this one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_quietly(seed: int, settings: Settings) -> Outcome:
    """What nodes log is for who runs them, not for who simulates them by the thousand."""
    with quiet():
        return run_seed(seed, settings)


def shrink(
    failed: Outcome,
    settings: Settings,
    *,
    runs: int = SHRINKING_RUNS,
    on_try: Callable[[int], None] = lambda left: None,
) -> tuple[list[PlannedFault], Outcome]:
    """A shorter plan after which the same breaks, and its outcome: faults are left out, halves first."""
    assert failed.failure is not None
    best = failed
    plan = _struck_before(failed.plan, failed)
    size = max(1, len(plan) // 2)
    while size >= 1 and runs > 0:
        start, smaller = 0, False
        while start < len(plan) and runs > 0:
            shorter = plan[:start] + plan[start + size :]
            runs -= 1
            on_try(len(plan))
            outcome = run_seed(failed.seed, settings, plan=shorter)
            if outcome.failure is not None and outcome.failure.is_like(failed.failure):
                plan, best, smaller = _struck_before(shorter, outcome), outcome, True
            else:
                start += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2) if not smaller or size > 1 else 1
    return plan, best


def _struck_before(plan: list[PlannedFault], outcome: Outcome) -> list[PlannedFault]:
    """What was to strike after it broke does not matter."""
    return [fault for fault in plan if fault.at_s <= outcome.seconds]
