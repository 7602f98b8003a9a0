"""A fault that waits for a moment counts when that comes, once, and not at all if it never does."""

import errno
import json
import random
from typing import Any

import pytest

from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.cluster import SimCluster
from tidelog.sim.disk_faults import DiskFaults
from tidelog.sim.faults.answers import grants, refusal
from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.injector import Injector
from tidelog.sim.faults.plan import FaultKind, PlannedFault
from tidelog.sim.runner import ENOUGH_SEEDS, Totals
from tidelog.sim.trace import Trace
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

PATH = "/data/orders-0/00000000000000000000.log"


class World:
    """One machine, and faults of one kind whose trap waits for an append to its disk."""

    def __init__(self, cluster: SimCluster, faults: int) -> None:
        self.cluster = cluster
        self.lines: list[dict[str, Any]] = []
        trace = Trace(cluster.loop, lambda: 0, lambda line: self.lines.append(json.loads(line)))
        plan = [PlannedFault(number=number, at_s=1.0, kind="lurk") for number in range(faults)]
        kinds = {"lurk": FaultKind(name="lurk", profile="disk", strike=self._lurk)}
        self.injector = Injector(cluster, 1, plan, trace, kinds)

    def _lurk(self, field: Field, rng: random.Random) -> Applied:
        moment, faults = Moment(), field.cluster.machine(1).disk_faults
        trap = faults.fail(errno.EIO, "append", path_part=".log", times=2)
        trap.on_spring = lambda path: moment.come(file=path)
        return Applied(what={"node": 1}, lasts_s=5.0, end=lambda: faults.remove(trap), moment=moment)

    def append(self) -> None:
        disk = self.cluster.machine(1).disk
        disk.make_dirs("/data/orders-0")
        disk.open(PATH, create=True).append(b"batch")

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


def test_a_trap_that_never_springs_does_not_count() -> None:
    with SimCluster(1) as cluster:
        world = World(cluster, 1)
        cluster.run(world.injector.run())
        cluster.run_for(10.0)
        assert (world.injector.struck, len(world.injector.tried)) == (0, 1)
        assert world.events() == ["armed", "missed"]
        world.append()


def test_a_trap_that_springs_counts_once() -> None:
    with SimCluster(1) as cluster:
        world = World(cluster, 1)
        cluster.run(world.injector.run())
        for _ in range(2):
            with pytest.raises(DiskError):
                world.append()
        world.append()
        assert world.injector.struck == 1
        assert world.events() == ["armed", "lurk"]
        assert {**world.lines[1], "steps": 0} == {
            "t": 1.0,
            "steps": 0,
            "source": "fault",
            "event": "lurk",
            "number": 0,
            "lasts_s": 5.0,
            "node": 1,
            "file": PATH,
        }


def test_what_springs_when_faults_are_over_does_not_count() -> None:
    with SimCluster(1) as cluster:
        world = World(cluster, 0)
        moment = Moment()
        world.injector._kinds = {
            "late": FaultKind(name="late", profile="disk", strike=lambda *_: Applied(what={}, moment=moment))
        }
        world.injector._strike(PlannedFault(number=0, at_s=0.0, kind="late"))
        cluster.run(world.injector.quiet())
        moment.come()
        assert world.injector.struck == 0
        assert "late" not in world.events()


def test_spare_faults_strike_until_enough_have_and_not_until_enough_are_armed() -> None:
    with SimCluster(1) as cluster:
        world = World(cluster, 0)
        world.injector._plan = [PlannedFault(number=n, at_s=float(n), kind="lurk", spare=True) for n in range(6)]

        def spring() -> None:
            with pytest.raises(DiskError):
                world.append()

        cluster.loop.call_later(2.5, spring)
        cluster.run(world.injector.run(1))
        assert world.injector.struck == 1
        assert [fault.number for fault in world.injector.tried] == [0, 1, 2, 3]


def test_a_kind_that_was_only_armed_never_happened() -> None:
    """Nobody writes to the metadata log's checkpoint in a run without a single snapshot."""
    settings = Settings(seconds=2.0, least_faults=0, least_batches=0, works=False, profiles=("process",))
    plan = [PlannedFault(number=0, at_s=0.5, kind="crash_snapshot")]
    outcome = run_seed(0, settings, plan=plan)
    assert outcome.failure is None, outcome.failure.lines()
    assert (outcome.faults, outcome.counts["armed"], len(outcome.plan)) == (0, 1, 1)
    totals = Totals()
    for _ in range(ENOUGH_SEEDS):
        totals.add(outcome)
    assert totals.faults["crash_snapshot"] == 0
    assert "crash_snapshot" in totals.never_happened(settings)


def test_a_trap_asks_whether_it_may_and_does_not_count_what_it_lets_pass() -> None:
    faults, may, heard = DiskFaults(), [False], list[str]()
    trap = faults.fail(errno.EIO, "fsync", skip=1, times=None)
    trap.only_if, trap.on_spring = lambda path: may[0], heard.append
    assert [faults("fsync", PATH) for _ in range(3)] == [None, None, None]
    may[0] = True
    assert [faults("fsync", PATH) for _ in range(3)] == [None, errno.EIO, errno.EIO]
    assert heard == [PATH]


def test_a_moment_that_has_come_is_heard_of_by_who_asks_later() -> None:
    moment, heard = Moment(), list[dict[str, Any]]()
    moment.come(node=1)
    moment.then(heard.append)
    moment.come(node=2)
    assert heard == [{"node": 1}]


@pytest.mark.parametrize(
    ("whole", "parts", "expected"),
    [
        (ErrorCode.NONE, [], None),
        (ErrorCode.NOT_CONTROLLER, [], ErrorCode.NOT_CONTROLLER),
        (ErrorCode.NONE, [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (ErrorCode.NONE, [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.NONE], None),
    ],
)
def test_an_answer_grants_something_or_is_a_refusal(
    whole: ErrorCode, parts: list[ErrorCode], expected: ErrorCode | None
) -> None:
    results = [PartitionResult(partition_id=index, error_code=code) for index, code in enumerate(parts)]
    response = ElectLeadersResponse(
        error_code=whole,
        replica_election_results=[ReplicaElectionResult(topic="orders", partition_result=results)] if parts else [],
    )
    assert refusal(response) is expected
    # With nothing to elect the answer is empty.
    assert grants(response) == (ErrorCode.NONE in parts)
