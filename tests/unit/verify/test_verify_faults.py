"""Rounds of faults, on a cluster that only takes notes; what counts as whole; what counts as a change of leader."""

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest

from tidelog.cluster.errors import ClusterError
from tidelog.verify.faults import KINDS, Target
from tidelog.verify.rounds import FaultDriver
from tidelog.verify.watch import LeaderChanges, View
from tidelog.verify.workload import FaultPlan, VerifyError
from tidelog.wire.messages.metadata import MetadataResponsePartition

NOW = (0.0, 0.0)


def partition(
    number: int, leader: int, isr: Sequence[int] = (1, 2, 3), *, epoch: int = 0, replicas: Sequence[int] = (1, 2, 3)
) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=[],
    )


def view(*partitions: MetadataResponsePartition, brokers: Sequence[int] = (1, 2, 3)) -> View:
    picture = {each.partition_index: each for each in partitions}
    return View(dict.fromkeys(brokers, picture), len(picture))


class NotedCluster:
    """A FaultPort that writes down what it is asked, and refuses what it is told to refuse."""

    def __init__(self, nodes: int = 3, *, refuse: str | None = None, status: int = 1) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._nodes = nodes
        self._refuse = refuse
        self._status = status

    def nodes(self) -> list[int]:
        return list(range(1, self._nodes + 1))

    def kill(self, node: int) -> None:
        self._note("kill", node)

    def start(self, node: int) -> None:
        self._note("start", node)

    def pause(self, node: int) -> None:
        self._note("pause", node)

    def resume(self, node: int) -> None:
        self._note("resume", node)

    def isolate(self, node: int, from_nodes: Sequence[int] | None) -> None:
        self._note("isolate", node, tuple(from_nodes) if from_nodes is not None else None)

    def heal(self) -> None:
        self._note("heal")

    def _note(self, *words: object) -> None:
        self.asked.append(words)
        if words[0] == self._refuse:
            raise ClusterError("it cannot be done", status=self._status)


class SteadyWatch:
    """Node 2 leads partition 0, node 1 the rest; node 3 is the active controller."""

    view = view(partition(0, 2), partition(1, 1))

    def __init__(self, *missing: str | None) -> None:
        self._missing = list(missing)

    async def wait_whole(self, timeout_s: float) -> str | None:
        return self._missing.pop(0) if self._missing else None

    async def controller(self) -> int:
        return 3


def play(
    cluster: NotedCluster,
    *kinds: str,
    rounds: int = 1,
    seed: int = 1,
    watch: SteadyWatch | None = None,
    now_ms: Callable[[], int] = lambda: 5,
    until_ms: int = 10,
    monkeypatch: pytest.MonkeyPatch,
) -> FaultDriver:
    monkeypatch.setattr("tidelog.verify.rounds._CALM_S", 0.0)
    driver = FaultDriver(cluster, FaultPlan(kinds=kinds, rounds=rounds, seed=seed, hold_s=NOW))
    asyncio.run(driver.run(watch or SteadyWatch(), now_ms, until_ms))
    return driver


def test_each_kind_does_and_undoes_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    expected: dict[str, list[tuple[object, ...]]] = {
        "kill-follower": [("kill", 3), ("start", 3)],
        "kill-controller": [("kill", 3), ("start", 3)],
    }
    for kind in KINDS:
        cluster = NotedCluster()
        driver = play(cluster, kind, monkeypatch=monkeypatch)
        (event,) = driver.events
        assert (event.kind, event.whole_ms) == (kind, 5)
        strike, undo = cluster.asked
        assert strike[:2] == (
            {"one-way": "isolate", "pause": "pause", "isolate": "isolate"}.get(kind, "kill"),
            event.node,
        )
        assert undo == {"pause": ("resume", event.node), "isolate": ("heal",), "one-way": ("heal",)}.get(
            kind, ("start", event.node)
        )
        if kind in expected:
            assert cluster.asked == expected[kind]
        if kind in ("kill-leader", "isolate", "one-way"):
            assert event.node in (1, 2), "a node that leads"
        if kind == "isolate":
            assert strike[2] is None
        if kind == "one-way":
            assert isinstance(strike[2], tuple) and set(strike[2]) <= {1, 2, 3} - {event.node} and strike[2]


def test_all_kinds_come_equally_often_and_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for seed in (7, 7, 8):
        cluster = NotedCluster()
        driver = play(cluster, *KINDS, rounds=30, seed=seed, monkeypatch=monkeypatch)
        assert [sum(event.kind == kind for event in driver.events) for kind in KINDS] == [5] * 6
        runs.append(cluster.asked)
    assert runs[0] == runs[1] != runs[2]


def test_rounds_end_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(NotedCluster(), "pause", rounds=9, until_ms=5, monkeypatch=monkeypatch).events == []


def test_an_isr_that_stays_short_ends_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = play(
        NotedCluster(), "pause", rounds=5, watch=SteadyWatch(None, "broker 1 does not answer"), monkeypatch=monkeypatch
    )
    assert len(driver.events) == 1 and driver.events[0].whole_ms is None
    assert driver.broken is not None and driver.broken.endswith("broker 1 does not answer")


def test_a_cluster_that_is_not_whole_is_not_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = NotedCluster()
    driver = play(cluster, "pause", rounds=5, watch=SteadyWatch("a reason"), monkeypatch=monkeypatch)
    assert (driver.events, cluster.asked, driver.broken) == ([], [], "before pause: a reason")


def test_a_node_that_does_not_come_back_ends_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = play(NotedCluster(refuse="start"), "kill-controller", rounds=5, monkeypatch=monkeypatch)
    assert driver.broken == "kill-controller of node 3: it cannot be done"


def test_a_fault_the_cluster_does_not_know_is_told_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="it cannot be done"):
        play(NotedCluster(refuse="isolate", status=2), "isolate", monkeypatch=monkeypatch)


def test_faults_that_need_more_nodes_are_refused_at_once() -> None:
    with pytest.raises(VerifyError, match="kill-follower needs 2 nodes, this cluster has 1"):
        FaultDriver(NotedCluster(nodes=1), FaultPlan(kinds=("kill-follower",)))


def test_an_interrupted_round_is_undone() -> None:
    async def interrupt() -> NotedCluster:
        cluster = NotedCluster()
        driver = FaultDriver(cluster, FaultPlan(kinds=("kill-controller",), hold_s=(3600, 3600)))
        task = asyncio.create_task(driver.run(SteadyWatch(), lambda: 0, 10))
        while not cluster.asked:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return cluster

    assert asyncio.run(interrupt()).asked == [("kill", 3), ("start", 3)]


def test_a_follower_leads_as_little_as_possible() -> None:
    seen = view(partition(0, 1), partition(1, 1), partition(2, 2))
    target = Target(nodes=(1, 2, 3), view=seen, rng=random.Random(1))
    assert {target.follower() for _ in range(20)} == {3}
    assert {target.leader() for _ in range(50)} == {1, 2}


# --- whole ---


def test_a_topic_is_whole_when_every_broker_sees_every_replica_in_sync() -> None:
    assert view(partition(0, 1), partition(1, 2)).missing() is None


def test_what_is_missing_is_said() -> None:
    whole = {0: partition(0, 1, epoch=4)}
    assert View({1: whole, 2: None}, 1).missing() == "broker 2 does not answer"
    assert View({1: whole, 2: {}}, 1).missing() == "broker 2 knows 0 of 1 partitions"
    assert view(partition(0, -1)).missing() == "partition 0 has no leader"
    assert (
        view(partition(0, 1, (1, 3))).missing()
        == "partition 0: [1, 3] of [1, 2, 3] are in sync, by the metadata of broker 1"
    )
    late = View({1: whole, 2: {0: partition(0, 2, epoch=3)}}, 1)
    assert late.missing() == "partition 0: broker 2 does not know leader epoch 4"


# --- leader changes ---


def test_a_broker_that_is_behind_changes_no_leader() -> None:
    changes = LeaderChanges()
    old, new = {0: partition(0, 1, epoch=1)}, {0: partition(0, 2, epoch=2)}
    for pictures in ({1: old, 2: old}, {1: old, 2: new}, {1: new, 2: old}, {1: old, 2: None}, {1: new, 2: new}):
        changes.look(View(pictures, 1))
    assert changes.count == 1


def test_a_moment_without_a_leader_is_no_change_by_itself() -> None:
    changes = LeaderChanges()
    for leader, epoch in ((1, 1), (-1, 2), (1, 3), (-1, 4), (2, 5)):
        changes.look(view(partition(0, leader, epoch=epoch)))
    assert changes.count == 1
