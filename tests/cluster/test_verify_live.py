"""`tidelog verify` against real nodes: it finds nothing where nothing is wrong, and finds what is."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.clients.waiting import wait_until
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.cli.output import INTERRUPTED
from tidelog.client.client import Client
from tidelog.cluster.layout import ClusterDir
from tidelog.testing import Cluster
from tidelog.verify.faults import ControlSocket
from tidelog.verify.history_file import read_history
from tidelog.verify.report import first_violations
from tidelog.verify.run import Result, run
from tidelog.verify.verdict import Verdict
from tidelog.verify.workload import FaultPlan, RunPlan, Workload


def verify(cluster: Cluster, *arguments: str, status: int = 0) -> str:
    return Commands(cluster.bootstrap).run("verify", "--data", str(cluster.directory), *arguments, status=status)


def test_a_node_that_is_killed_and_paused_keeps_its_word(tmp_path: Path) -> None:
    kept = tmp_path / "history.jsonl"
    with Cluster(brokers=1) as cluster:
        out = verify(
            cluster,
            *("--seconds", "60", "--rounds", "2", "--faults", "kill-leader,pause", "--hold", "0.3", "--seed", "1"),
            *("--partitions", "3", "--history", str(kept), "--json"),
        )
        judged: dict[str, Any] = json.loads(out)
        assert (judged["verdict"], judged["reasons"], judged["replication_factor"]) == ("ok", [], 1)
        assert judged["counts"]["faults"] == {"kill-leader": 1, "pause": 1}
        assert judged["counts"]["read"] == 2 * judged["counts"]["final"] >= 2 * judged["counts"]["acknowledged"]
        assert judged["counts"]["refused"] > 0, "a record too large is refused, so that a read of one would be found"
        assert judged["topic"] not in Commands(cluster.bootstrap).run("topics", "list")
    history = read_history(kept)
    assert len(history.faults) == 2 and history.partitions == 3


class CutsItsLog(ControlSocket):
    """A cluster whose killed node comes back without the second half of one log, as after a power cut."""

    # Half of it is more than consumers can be behind.
    ENOUGH_BYTES = 150_000

    def __init__(self, data: Path, topic: str) -> None:
        super().__init__(data)
        self._data = ClusterDir(data)
        self._topic = topic

    def kill(self, node: int) -> None:
        segment = self._segment(node)
        wait_until(lambda: segment.stat().st_size > self.ENOUGH_BYTES, "enough to lose half of it")
        super().kill(node)

    def start(self, node: int) -> None:
        os.truncate(self._segment(node), self.ENOUGH_BYTES // 2)
        super().start(node)

    def _segment(self, node: int) -> Path:
        (segment,) = (self._data.log_dir(node) / f"{self._topic}-0").glob("*.log")
        return segment


def test_what_one_replica_loses_is_found() -> None:
    """The checker can fail, end to end."""

    async def lossy_run(bootstrap: str, data: Path) -> Result:
        plan = RunPlan(
            # Sequences with a gap are the end of an idempotent producer; this one goes on over the lost offsets.
            workload=Workload(bootstrap=bootstrap, topic="orders", partitions=2, idempotent=False),
            seconds=60,
            faults=FaultPlan(kinds=("kill-leader",), rounds=1, hold_s=(0, 0)),
        )
        async with Client(bootstrap) as client:
            return await run(client, plan, port=CutsItsLog(data, "orders"))

    with Cluster(brokers=1) as cluster:
        result = asyncio.run(lossy_run(cluster.bootstrap, cluster.directory))
        assert "orders" in Commands(cluster.bootstrap).run("topics", "list"), "what shows a bug is kept"
    found = {finding.check.name: finding for finding in result.judgement.findings if finding.count}
    assert result.judgement.verdict is Verdict.FAILED
    assert {"lost-write", "precommitted-read"} <= set(found), result.judgement.reasons
    assert all(violation.partition == 0 for finding in found.values() for violation in finding.first)
    assert any(
        "(kill-leader of node 1)" in line or " s: " in line
        for line in first_violations(result.judgement, result.history)
    )


def test_too_little_is_inconclusive() -> None:
    with Cluster(brokers=1) as cluster:
        said = verify(cluster, "--seconds", "0.5", "--min-acknowledged", "1000000", status=1)
        assert said.startswith("tidelog: verify inconclusive: ") and "fewer than 1000000" in said


def test_what_the_cluster_refuses_is_one_line() -> None:
    with Cluster(brokers=1) as cluster:
        assert "topic" in verify(cluster, "--seconds", "1", "--replication-factor", "3", status=1)


def test_an_interrupted_run_gives_the_cluster_back_whole() -> None:
    with Cluster(brokers=1) as cluster:
        arguments = ["--data", str(cluster.directory), "--faults", "kill-leader", "--hold", "3600"]
        command = [sys.executable, "-m", "tidelog", "verify", "--bootstrap", cluster.bootstrap, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: cluster.pid(1) is None, "a node that is killed")
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=TIMEOUT_S) == ("", "")
        assert process.returncode == INTERRUPTED
        assert cluster.pid(1) is not None
        assert Commands(cluster.bootstrap).json("topics", "list") == []
