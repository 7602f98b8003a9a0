"""Three brokers under `tidelog verify`: with acks=all nothing acknowledged is lost; with acks=1 it is, and is found."""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.clients.waiting import wait_until
from tests.cluster.commands import Commands
from tests.soak import full_length, rounds

from tidelog.client.client import Client
from tidelog.cluster.layout import ClusterDir
from tidelog.testing import Cluster
from tidelog.verify.faults import KINDS, ControlSocket
from tidelog.verify.run import Result, run
from tidelog.verify.workload import FaultPlan, RunPlan, Workload

ROUNDS = rounds(len(KINDS), 200)
# Short runs do not wait for a session to time out; the full length does, in half of its silences.
HOLD = rounds(["--hold", "0.5..2"], [])
ENOUGH = rounds(
    [], ["--min-acknowledged", "100000", "--min-faults", "20", "--min-leader-changes", "100", "--seed", "4"]
)


# The plugin's fixture keeps data and logs of a cluster when its test fails.
pytestmark = pytest.mark.tidelog(brokers=3)


@pytest.mark.soak
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_three_brokers_keep_their_word(tidelog_cluster: Cluster) -> None:
    """RF 3, min ISR 2, acks=all, idempotent producers, twelve partitions, every kind of fault."""
    arguments = [
        "--data",
        str(tidelog_cluster.directory),
        "--faults",
        ",".join(KINDS),
        "--rounds",
        str(ROUNDS),
        *HOLD,
        *ENOUGH,
    ]
    out = Commands(tidelog_cluster.bootstrap).run("verify", "--seconds", str(60 * ROUNDS), *arguments, "--json")
    judged = json.loads(out)
    assert (judged["verdict"], judged["replication_factor"], judged["min_isr"]) == ("ok", 3, 2)
    if full_length():
        print(json.dumps(judged["counts"]))


# The last looks of so many let the followers breathe: while they have everything and cannot say so, nobody writes with
# acks=all.
BREATH, BREATHES = 25, 5


class StaleFollowers(ControlSocket):
    """Kills a leader that wrote `growth` bytes more than its followers, who stand still."""

    def __init__(self, data: Path, topic: str, growth: int) -> None:
        super().__init__(data)
        self._data = ClusterDir(data)
        self._topic = topic
        self._growth = growth

    def kill(self, node: int) -> None:
        followers = [other for other in self.nodes() if other != node]
        looks = count()
        wait_until(lambda: self._alone_with_writes(node, followers, next(looks)), "writes that nobody fetches")
        super().kill(node)
        self._each(followers, self.resume)

    def _alone_with_writes(self, node: int, followers: list[int], look: int) -> bool:
        if look % BREATH == 0:
            self._each(followers, self.pause)
        if look % BREATH >= BREATH - BREATHES:
            self._each(followers, self.resume)
            return False
        return any(self._ahead(log, followers) for log in self._data.log_dir(node).glob(f"{self._topic}-*/*.log"))

    def _ahead(self, log: Path, followers: list[int]) -> bool:
        copies = [self._data.log_dir(follower) / log.parent.name / log.name for follower in followers]
        return log.stat().st_size > max(copy.stat().st_size for copy in copies) + self._growth

    @staticmethod
    def _each(nodes: list[int], do: Callable[[int], None]) -> None:
        for node in nodes:
            do(node)


async def kill_the_only_one_who_knows(cluster: Cluster, acks: str) -> Result:
    workload = Workload(
        bootstrap=cluster.bootstrap,
        topic="orders",
        partitions=3,
        min_isr=2 if acks == "all" else 1,
        acks=acks,
        idempotent=acks == "all",
        rate=5_000,
    )
    # With acks=all producers soon have all their requests waiting for the followers, and write no more.
    growth = 1_000 if acks == "all" else 8_000
    plan = RunPlan(workload=workload, seconds=120, faults=FaultPlan(kinds=("kill-leader",), rounds=1, hold_s=(0, 0)))
    async with Client(cluster.bootstrap) as client:
        return await run(client, plan, port=StaleFollowers(cluster.directory, "orders", growth))


@pytest.mark.parametrize(("acks", "lost"), [("1", True), ("all", False)])
def test_what_only_a_killed_leader_had_is_lost_with_acks_1_alone(
    tidelog_cluster: Cluster, acks: str, lost: bool
) -> None:
    result = asyncio.run(kill_the_only_one_who_knows(tidelog_cluster, acks))
    found = {finding.check.name: finding.count for finding in result.judgement.findings if finding.count}
    assert len(result.history.faults) == 1
    # What was acknowledged by the leader alone is gone and its offsets have other values: but nobody had read it.
    assert set(found) == ({"lost-write", "inconsistent-offsets"} if lost else set()), result.judgement.reasons
