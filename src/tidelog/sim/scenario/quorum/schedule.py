"""Drives a quorum at random: messages lost, late, twice and out of order, processes and power failing, voters changing.

Everything is drawn from one seed, so a seed is a schedule. Some end by letting the faults stop: then the quorum must
come back to work (liveness).
"""

import hashlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft_config import RaftConfig
from tidelog.sim.scenario.quorum.cluster import ClusterConfig, QuorumCluster
from tidelog.sim.scenario.quorum.disk import WatchedDisk
from tidelog.sim.scenario.quorum.invariants import Invariant
from tidelog.sim.scenario.quorum.observer import described

_LAST_EVENTS: Final = 80
# Long enough for any backoff and a few lost elections.
_RECOVERY_S: Final = 60.0


class NotLive(AssertionError):
    """The faults stopped and the quorum did not come back to work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """One kind of world.

    A schedule has up to `max_steps`; many are short, for much goes wrong early. Shares of them start with a quorum that
    works already, and end with the faults: then the quorum has to come back to work. `roughness` is drawn from: without
    gentle schedules little is ever committed. `make_disk` lets a test bring a disk that lies; a member that refuses to
    start from what it left stays down if `may_refuse_to_start`.
    """

    nodes: int = 3
    observers: int = 0
    max_steps: int = 160
    warm_starts: float = 0.4
    recoveries: float = 0.2
    roughness: tuple[float, ...] = (0.2, 1.0, 3.0)
    may_refuse_to_start: bool = False
    voters_in_log: bool = False
    make_disk: Callable[[], WatchedDisk] = WatchedDisk
    invariants: Callable[[], Sequence[Invariant] | None] = lambda: None
    # How much of the end of the trace is kept; None: all of it.
    keep_events: int | None = _LAST_EVENTS


class Trace:
    """A fingerprint of everything that happened, and the end of it."""

    def __init__(self, keep_events: int | None) -> None:
        self.events: deque[str] = deque(maxlen=keep_events)
        self.count = 0
        self._digest = hashlib.sha256()

    def __call__(self, line: str) -> None:
        self.count += 1
        self.events.append(line)
        self._digest.update(line.encode() + b"\n")

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()


class Schedule:
    """Invariant: a step draws from `rng` and from the order of what is there, from nothing else."""

    def __init__(self, seed: int, config: ScheduleConfig) -> None:
        self._rng = random.Random(seed)
        self._config = config
        self.trace = Trace(config.keep_events)
        nodes = tuple(range(1, config.nodes + config.observers + 1))
        self.cluster = QuorumCluster(
            ClusterConfig(
                nodes=nodes,
                voters=nodes[: config.nodes],
                seed=seed,
                voters_in_log=config.voters_in_log,
                auto_flush=False,
                # One batch at a time shows states between that whole logs in one answer never show.
                raft=RaftConfig(fetch_max_bytes=self._rng.choice([100, 8 << 20])),
                log=MetadataLogConfig(segment_bytes=self._rng.choice([300, 2000, 1 << 20]), retention_bytes=600),
                make_disk=config.make_disk,
            ),
            self.trace,
            config.invariants(),
        )
        roughness = self._rng.choice(config.roughness)
        self._choices: list[tuple[float, Callable[[], None]]] = [
            (40.0, self._deliver),
            (14.0, self._tick),
            (18.0, self._flush),
            (10.0, self._append),
            (2.0, self._snapshot),
            (3.0 * roughness, self._drop),
            (2.0 * roughness, self._duplicate),
            (1.0 * roughness, self._end_process),
            (4.0, self._start),
            (1.0 * roughness, self._cut),
            (1.5, self._heal),
            (1.0 if config.voters_in_log else 0.0, self._change_voters),
        ]
        self._written = 0

    def run(self) -> None:
        for node in self.cluster.members:
            self.cluster.start(node)
        if self._rng.random() < self._config.warm_starts:
            self._warm_up()
        weights = [weight for weight, _ in self._choices]
        recovers = self._rng.random() < self._config.recoveries
        for _ in range(self._config.max_steps // self._rng.choice([1, 4, 4, 8, 8])):
            (_, action), *_ = self._rng.choices(self._choices, weights)
            action()
        if recovers:
            self._recover()

    def _warm_up(self) -> None:
        """A leader, and a record everyone has: most of what can go wrong needs both."""
        self.cluster.auto_flush = True
        self.cluster.run_for(0.3)
        self._append()
        self.cluster.settle()
        self.cluster.auto_flush = False

    # --- what can happen ---

    def _deliver(self) -> None:
        """Mostly in order, sometimes not; a few one after the other, or little would ever get done."""
        for _ in range(self._rng.randint(1, 4)):
            packets = self.cluster.network.packets
            if not packets:
                return
            packet = packets[0] if self._rng.random() < 0.8 else self._rng.choice(packets)
            self.cluster.deliver(packet)

    def _drop(self) -> None:
        if packets := self.cluster.network.packets:
            packet = self._rng.choice(packets)
            self.trace(f"drop {packet}")
            self.cluster.drop(packet)

    def _duplicate(self) -> None:
        if packets := self.cluster.network.packets:
            packet = self._rng.choice(packets)
            self.trace(f"duplicate {packet}")
            self.cluster.network.duplicate(packet)

    def _tick(self) -> None:
        """To where the next one wakes, a little further, or far."""
        now_s, wake_s = self.cluster.now_s, self.cluster.next_wake_s()
        until_s = self._rng.choice([wake_s, now_s + self._rng.uniform(0, 0.05), now_s + self._rng.uniform(0, 1.5)])
        self.trace(f"time {now_s:.6f}")
        self.cluster.advance(min(until_s, now_s + 5.0))

    def _flush(self) -> None:
        """The two halves are steps of their own: much may happen in between."""
        running = self._running()
        if not running:
            return
        node = self._rng.choice(running)
        member = self.cluster.members[node]
        if member.flushing is None and self.cluster.needs_flush(node):
            self.cluster.begin_flush(node)
            if self._rng.random() < 0.3:
                return
        if member.flushing is not None:
            self.cluster.end_flush(node)

    def _append(self) -> None:
        leaders = [node for node in self._running() if self.cluster.is_leader(node)]
        if leaders:
            self._written += 1
            values = [f"k{self._rng.randint(0, 5)}={self._written}" for _ in range(self._rng.randint(1, 3))]
            self.cluster.append(self._rng.choice(leaders), values)

    def _snapshot(self) -> None:
        if running := self._running():
            self.cluster.snapshot(self._rng.choice(running))

    def _end_process(self) -> None:
        if running := self._running():
            node, silent = self._rng.choice(running), self._rng.random() < 0.3
            if self._rng.random() < 0.7:
                self.trace(f"crash {node}")
                self.cluster.crash(node, self._rng, silent=silent)
            else:
                self.trace(f"kill {node}")
                self.cluster.kill(node, silent=silent)

    def _start(self) -> None:
        down = [node for node, member in self.cluster.members.items() if member.raft is None]
        if not down:
            return
        node = self._rng.choice(down)
        try:
            self.cluster.start(node)
        except QuorumError as refusal:
            if not self._config.may_refuse_to_start:
                raise
            self.trace(f"{node}: {refusal}")

    def _cut(self) -> None:
        one, other = self._rng.sample(sorted(self.cluster.members), 2)
        self.trace(f"cut {one} {other}")
        self.cluster.cut([(one, other)] if self._rng.random() < 0.5 else [(one, other), (other, one)])

    def _heal(self) -> None:
        self.trace("heal")
        self.cluster.network.cuts.clear()

    def _change_voters(self) -> None:
        leaders = [node for node in self._running() if self.cluster.is_leader(node)]
        if not leaders:
            return
        leader = self._rng.choice(leaders)
        voters = self.cluster.members[leader].voter_ids
        node = self._rng.choice(sorted(self.cluster.members))
        if node not in voters:
            self.cluster.add_voter(leader, node)
        elif len(voters) > 1:
            self.cluster.remove_voter(leader, node)

    def _running(self) -> list[int]:
        return [node for node, member in self.cluster.members.items() if member.raft is not None]

    # --- when the faults stop ---

    def _recover(self) -> None:
        """Everyone runs and hears everyone; then one leads, a record gets committed, and all have applied it."""
        self.trace("faults stop")
        cluster = self.cluster
        cluster.network.cuts.clear()
        for node, member in cluster.members.items():
            if member.flushing is not None:
                cluster.end_flush(node)
            if member.raft is None:
                cluster.start(node)
        cluster.flush_from_now_on()
        until_s = cluster.now_s + _RECOVERY_S
        last = -1
        while cluster.now_s < until_s:
            cluster.run_for(0.5)
            leaders = [node for node in self._running() if cluster.is_leader(node)]
            if len(leaders) != 1:
                continue
            if last < 0 or cluster.history.end_offset <= last:
                last = cluster.append(leaders[0], ["end=1"])
                continue
            if all(member.applied_offset > last for member in cluster.members.values()):
                return
        raise NotLive(
            f"{_RECOVERY_S:.0f} s after the faults stopped: "
            + "; ".join(described(member) for member in cluster.members.values())
        )


def run_schedule(seed: int, config: ScheduleConfig) -> Schedule:
    """A failure tells its seed and what led to it."""
    schedule = Schedule(seed, config)
    try:
        schedule.run()
    except (AssertionError, QuorumError) as error:
        error.add_note(f"seed {seed}, {config}; the last of {schedule.trace.count} events:")
        error.add_note("\n".join(schedule.trace.events))
        raise
    return schedule
