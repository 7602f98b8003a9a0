"""One seed from beginning to end: a cluster starts, faults strike while somebody works with it, then quiet.

Everything follows from the seed and the settings: the same twice, whatever machine runs it.
"""

import asyncio
import gc
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.client.errors import ClientError
from tidelog.client.tasks import ended
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage
from tidelog.sim.checks.failure import UNHANDLED, Failure
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.liveness import Liveness, Unsettled
from tidelog.sim.checks.watch import Watch
from tidelog.sim.cluster import SimCluster, fast_or_slow
from tidelog.sim.faults.injector import Injector
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import ALL, PlannedFault, draw_plan
from tidelog.sim.logged import collected
from tidelog.sim.loop import Deadlock, Spinning
from tidelog.sim.machine import End
from tidelog.sim.trace import FORMAT, RUN, Trace
from tidelog.sim.witness import SnapshotWitness, Witness
from tidelog.sim.workloads.churn import Churn
from tidelog.sim.workloads.groups import Group
from tidelog.sim.workloads.office import Office
from tidelog.sim.workloads.readers import Readers
from tidelog.sim.workloads.writers import Writers
from tidelog.storage.memory import INJECTED
from tidelog.wire.errors import ApiError

PROPERTIES: Final = {
    # The metadata lies apart, so that a voter can lose its logs without losing its vote.
    "log.dirs": "/data/a,/data/b",
    "metadata.log.dir": "/metadata",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # Clocks jump by days, and a record that retention took is not lost.
    "log.retention.ms": "-1",
    "producer.id.expiration.ms": "2147483647",
    # Leaders take out who is behind while faults last, and do not leave it to sessions.
    "replica.lag.time.max.ms": "3000",
    # How long the first member of a group waits for others to come: so short shows as much.
    "group.initial.rebalance.delay.ms": "500",
}

# As it is; in many small answers, and a leader far ahead gives a follower a second fetcher; batch by batch. What is
# small costs a fetch for every batch that a replica lacks, so that most seeds do without.
_SMALL: Final = {"replica.fetch.max.bytes": "512"}
_SMALLEST: Final = {"replica.fetch.max.bytes": "1"}
FETCHES: Final[tuple[dict[str, str], ...]] = ({}, _SMALL, _SMALLEST, {}, {}, _SMALLEST, {}, _SMALL, {})

# A log is one segment, or begins another every few seconds that it is written to.
ROLLS: Final[tuple[dict[str, str], ...]] = ({}, {"log.roll.ms": "3000", "log.cleaner.enable": "false"})
# Snapshots of the metadata every hour, or all the time: then the log begins with the newest, and who was away needs it.
SNAPSHOTS: Final[tuple[dict[str, str], ...]] = (
    {},
    {
        "metadata.log.max.record.bytes.between.snapshots": "1500",
        "metadata.max.retention.bytes": "1",
        "controller.quorum.fetch.snapshot.max.bytes": "700",
    },
)

# Four brokers give reassignments somewhere to go.
SHAPES: Final = ((3, 0), (3, 0), (3, 0), (4, 0), (3, 0), (3, 0), (3, 3), (3, 0))
# By how much the time between faults is longer: where one fault hurts only a cluster that is well, others spoil it.
# Where it is, faults of several steps are alone while they last.
CALM: Final = (1.0, 2.5, 1.0, 1.0, 2.5)
# Whether clients write and read as fast as they can all the time, and not only where it tells (`_Run._is_hurried`).
BUSY: Final = (False, False, True, False, False, False, False)
HURRY_S: Final = 0.5
"""How long they hurry after a fault struck or ended."""
ANSWER_S: Final = 30.0
"""How long an answer may be on its way: then clients give it up."""
# A controller that has nothing to commit commits that, and twice a second it costs as much as all else that an idle
# quorum does. In a busy run it does, as it ships.
LEISURE: Final = {"metadata.max.idle.interval.ms": "3000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What, besides the seed, a run depends on."""

    brokers: int | None = None
    """With None the seed decides, also on dedicated controllers."""
    controllers: int = 0
    profiles: Sequence[str] = (ALL,)
    seconds: float = 30.0
    """Of faults. Longer until so many have struck and so many batches are acknowledged:"""
    least_faults: int = 10
    least_batches: int = 300
    mean_gap_s: float = 1.0
    intensity: float = 1.0
    """How many times as many faults strike in the same time."""
    quiet_timeout_s: float = 120.0
    works: bool = True
    """Whether clients use the cluster."""
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
    read: int
    commits: int
    truncations: int
    elections: int
    unclean: int
    """Of the elections."""
    unhandled: list[str]
    plan: list[PlannedFault]
    failure: Failure | None = None


def run_seed(
    seed: int,
    settings: Settings | None = None,
    *,
    plan: list[PlannedFault] | None = None,
    sink: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs one seed, with the plan it draws or the one that is given: of that everything strikes, and nothing more."""
    settings = settings or Settings()
    if plan is None:
        plan = plan_of(seed, settings)
    else:
        plan = [replace(fault, spare=False) for fault in plan]
        settings = replace(settings, least_faults=0)
    # The world is built and left in a frame of its own: when it is looked for what to free, nothing holds it any more.
    with _uncollected():
        return _run(seed, settings, plan, sink)


def _run(seed: int, settings: Settings, plan: list[PlannedFault], sink: Callable[[str], None]) -> Outcome:
    brokers, controllers = shape_of(seed, settings)
    rng = random.Random(f"{seed} properties")
    properties = (
        FETCHES[seed % len(FETCHES)] | ({} if _is_busy(seed) else LEISURE) | rng.choice(ROLLS) | rng.choice(SNAPSHOTS)
    )
    properties |= settings.properties
    with SimCluster(brokers, controllers=controllers, seed=seed, properties=properties, pace=fast_or_slow) as cluster:
        return _Run(cluster, seed, settings, plan, sink).go()


def _has_to_end(error: BaseException, log_dirs: Sequence[str]) -> bool:
    """Whether a fault of its disk leaves a node nothing else: that of its metadata, or one that is full. One directory
    of logs it can do without.
    """
    told = str(error)
    return INJECTED in told and ("ENOSPC" in told or not any(f"{directory}/" in told for directory in log_dirs))


@contextmanager
def _uncollected() -> Iterator[None]:
    """A run leaves some ten megabytes behind, and one look at all of it in the end costs less than many in between."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect(0)


def _is_busy(seed: int) -> bool:
    return BUSY[seed % len(BUSY)]


def _calm_of(seed: int) -> float:
    return CALM[seed % len(CALM)]


def plan_of(seed: int, settings: Settings) -> list[PlannedFault]:
    """The faults of a seed."""
    gap_s = settings.mean_gap_s * _calm_of(seed) / settings.intensity
    return draw_plan(seed, KINDS, profiles=settings.profiles, seconds=settings.seconds, mean_gap_s=gap_s)


def shape_of(seed: int, settings: Settings) -> tuple[int, int]:
    """How many brokers, and how many controllers that are nothing else: mostly three nodes that are both."""
    if settings.brokers is not None:
        return settings.brokers, settings.controllers
    return SHAPES[seed % len(SHAPES)]


class _Run:
    def __init__(
        self,
        cluster: SimCluster,
        seed: int,
        settings: Settings,
        plan: list[PlannedFault],
        sink: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._seed = seed
        self._settings = settings
        self._trace = trace = Trace(cluster.loop, lambda: cluster.loop.steps, sink)
        self._injector = Injector(cluster, seed, plan, trace, gives_slots=_calm_of(seed) > 1.0)
        self._watch = Watch(cluster, trace)
        office = Office(
            cluster, self._watch, trace, seed, hurried=self._is_hurried, due=self._due, damaged=self._may_be_damaged
        )
        self._writers = Writers(office)
        self._injector.on_change = self._writers.hurry
        self._readers = Readers(office)
        self._group = Group(office)
        self._churn = Churn(office)
        self._watch.on_unclean = self._writers.on_unclean
        self._witness = Witness(trace)
        SnapshotWitness(cluster, trace, self._watch.on_snapshot)
        trace.listeners.append(self._watch.on_event)
        cluster.on_metadata = self._on_metadata
        cluster.on_event = trace.node_event
        # What goes wrong beside the nodes: an onlooker that has stopped looking finds nothing.
        self._unhandled: list[str] = []
        cluster.loop.set_exception_handler(
            lambda loop, context: self._unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")
        )

    def go(self) -> Outcome:
        cluster, trace, writers, settings = self._cluster, self._trace, self._writers, self._settings
        trace.record(
            RUN,
            "seed",
            format=FORMAT,
            seed=self._seed,
            roles=cluster.roles,
            profiles=list(settings.profiles),
            seconds=settings.seconds,
            intensity=settings.intensity,
        )
        failure: Failure | None = None
        try:
            with collected() as logged:
                cluster.run(self._unless_broken())
        except InvariantBroken as broken:
            failure = Failure.of(broken, self._watch.describe(broken), trace)
        except (Unsettled, TimeoutError, Deadlock) as error:
            failure = self._not_alive(str(error))
        except Spinning as error:
            failure = self._not_alive(f"{Spinning.__name__}: {error}")
        except (ApiError, ClientError) as error:
            # Whoever reads everything back is answered, once faults are over.
            failure = self._not_alive(f"a client got an error that it must not retry: {type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on to other seeds and names this one
            told = [line.rstrip() for line in traceback.format_exception(error)]
            what = f"{type(error).__name__}: {error}"
            failure = Failure(
                invariant=UNHANDLED, what=what, replicas=self._watch.everything(), events=[*trace.last(), *told]
            )
        unhandled = cluster.unhandled() + self._surprises() + self._unhandled + logged
        if failure is None and unhandled:
            failure = Failure(
                invariant=UNHANDLED, what=unhandled[0], replicas=self._watch.everything(), events=trace.last()
            )
        if failure is not None:
            trace.record(RUN, "broken", invariant=failure.invariant, what=failure.what)
        return Outcome(
            seed=self._seed,
            digest=trace.end(),
            seconds=cluster.loop.time(),
            steps=cluster.loop.steps,
            counts=dict(trace.counts),
            faults=self._injector.struck,
            acknowledged=writers.ledger.batches,
            forgotten=writers.ledger.forgotten,
            read=self._readers.read,
            commits=self._group.commits,
            truncations=self._watch.truncations,
            elections=self._witness.elections,
            unclean=self._witness.unclean,
            unhandled=unhandled,
            plan=self._injector.tried,
            failure=failure,
        )

    def _not_alive(self, what: str) -> Failure:
        return Failure(
            invariant=Liveness.__name__,
            statement=Liveness.statement(),
            what=what,
            replicas=self._watch.everything(),
            events=self._trace.last(),
        )

    def _surprises(self) -> list[str]:
        """Processes that ended by themselves, and no fault of their disk is the reason."""
        found: list[str] = []
        for node_id, node in self._cluster.nodes.items():
            exits = node.machine.exits
            errors = [*node.failures, *(end.error for end in exits if end.error is not None)]
            found += [
                f"node {node_id} ended with {type(error).__name__}: {error}"
                for error in errors
                if not _has_to_end(error, node.config.log_dirs)
            ]
            if sum(end.end is End.RETURNED and not end.asked for end in exits) > len(node.failures):
                found.append(f"node {node_id} ended without a request")
        return found

    def _on_metadata(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        self._witness(node_id, image, delta)
        self._watch.on_metadata(node_id, image, delta)

    async def _unless_broken(self) -> None:
        """The story, until an invariant breaks."""
        story = asyncio.ensure_future(self._story())
        await asyncio.wait((story, self._watch.failure), return_when=asyncio.FIRST_COMPLETED)
        if self._watch.failure.done():
            story.cancel()
            await ended([story])
            raise self._watch.failure.result()
        story.result()

    async def _story(self) -> None:
        cluster, settings = self._cluster, self._settings
        await cluster.start_all()
        self._trace.record(RUN, "started")
        if settings.works:
            await self._writers.begin()
            self._readers.begin()
            self._group.begin()
            self._churn.begin()
        end = cluster.loop.time() + settings.seconds
        await self._injector.run(settings.least_faults)
        if self._injector.struck < settings.least_faults:
            raise Unsettled(f"only {self._injector.struck} of at least {settings.least_faults} faults took effect")
        await asyncio.sleep(max(0.0, end - cluster.loop.time()))
        if settings.works:
            self._injector.set_clocks_right()
            await self._until(self._lacking_batches)
        await self._injector.quiet(settings.quiet_timeout_s)
        if settings.works:
            await self._churn.stop()
            await self._writers.stop()
        await self._settle()
        if settings.works:
            await self._writers.confirm()
            await self._settle()
            await self._writers.check()
            await self._until(self._readers.behind)
            await self._readers.stop()
            await self._group.stop()
            await self._group.check()
        self._trace.record(RUN, "end_of_run")

    async def _settle(self) -> None:
        """Until everything that can happen has happened; `Unsettled` says what has not."""
        await self._until(Liveness(self._cluster, self._watch).missing)
        self._trace.record(RUN, "settled")

    async def _until(self, missing: Callable[[], str | None]) -> None:
        """Until nothing is missing any more."""
        try:
            await self._cluster.until(lambda: missing() is None, timeout_s=self._settings.quiet_timeout_s, every_s=0.1)
        except TimeoutError as error:
            raise Unsettled(missing() or str(error)) from error

    def _is_hurried(self) -> bool:
        """In a busy run always, else near a fault: where nothing happens, few writes and reads tell as much as many."""
        return _is_busy(self._seed) or self._injector.is_felt(HURRY_S)

    def _may_be_damaged(self) -> bool:
        """Whether a client may be handed a batch that a leader has misread: answers are on their way for a while."""
        field = self._injector.field
        return field.misreading > 0 or self._cluster.loop.time() < field.misread_s + ANSWER_S

    def _due(self) -> float:
        settings = self._settings
        return settings.least_batches * min(self._cluster.loop.time() / settings.seconds, 1.0)

    def _lacking_batches(self) -> str | None:
        """Faults end by themselves, so that writers get on whatever was planned."""
        batches, least = self._writers.ledger.batches, self._settings.least_batches
        return None if batches >= least else f"only {batches} of at least {least} batches were acknowledged"
