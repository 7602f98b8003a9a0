"""Whole pytest sessions with many clusters, ended in order and by SIGKILL: nothing of a node is left."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S
from tests.soak import rounds

from tidelog.cluster.platform import ON_LINUX

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="reads /proc")

CLUSTERS = rounds(6, 100)
KILLED_SESSIONS = rounds(2, 20)
RUN = "TIDELOG_TEST_RUN"

MANY_CLUSTERS = f"""
import os, threading
from pathlib import Path
import pytest
from tidelog.testing import Cluster

def state():
    me = os.getpid()
    children = Path(f"/proc/{{me}}/task").glob("*/children")
    return (
        sorted(pid for each in children for pid in each.read_text().split()),
        sorted(thread.name for thread in threading.enumerate()),
        len(os.listdir("/proc/self/fd")),
    )

STATES = []

@pytest.mark.parametrize("number", range({CLUSTERS}))
def test_a_cluster(number):
    with Cluster(brokers=3 if number % 3 == 2 else 1) as cluster:
        cluster.create_topic("orders")
        assert cluster.leader("orders", 0) >= 1
        directory = cluster.directory
    assert not directory.exists()
    STATES.append(state())

def test_every_cluster_left_the_same():
    assert [state for state in STATES if state != STATES[0]] == []
    processes, threads, _ = STATES[0]
    assert len(processes) == 1, "the template"
"""

RUNNING_CLUSTER = """
import signal
from pathlib import Path
from tidelog.testing import Cluster

def test_that_never_ends():
    with Cluster(brokers={brokers}) as cluster:
        cluster.create_topic("orders")
        Path("directory.new").write_text(str(cluster.directory))
        Path("directory.new").rename("directory")
        print("running", flush=True)
        signal.pause()
"""


def session(directory: Path, code: str, *options: str) -> "subprocess.Popen[str]":
    """A pytest session in `directory`; its processes can be found by the variable RUN, its data by TMPDIR."""
    (directory / "test_session.py").write_text(code)
    (directory / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_session.py"],
        cwd=directory,
        env=os.environ | {RUN: str(directory), "TMPDIR": str(directory / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_of(directory: Path) -> dict[int, str]:
    """The processes of a session by pidfd, with their names."""
    variable = f"{RUN}={directory}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    found[os.pidfd_open(int(entry.name))] = (entry / "comm").read_text().strip()
            except OSError:
                continue  # it has ended
    return found


def check_gone(processes: dict[int, str]) -> None:
    """Waits until these have ended. A process that is ending has no environment any more, but still its sockets."""
    for pidfd, name in processes.items():
        assert select.select([pidfd], [], [], TIMEOUT_S)[0], f"{name} still runs"
        os.close(pidfd)


def ports_of(directory: Path) -> set[int]:
    nodes = json.loads((directory / "cluster.json").read_text())["nodes"]
    return {node[name] for node in nodes for name in ("port", "controller_port", "metrics_port")} - {None}


def sockets_on(ports: set[int]) -> set[str]:
    """The inodes of all sockets with one of these local ports."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    # A socket that has no process any more has no inode.
    return {row[9] for row in rows if int(row[1].rpartition(":")[2], 16) in ports} - {"0"}


@pytest.mark.soak
def test_many_clusters_in_one_session_leave_nothing_behind(tmp_path: Path) -> None:
    with session(tmp_path, MANY_CLUSTERS) as running:
        said, _ = running.communicate(timeout=10 * TIMEOUT_S)
    assert running.returncode == 0, said
    assert re.search(rf"{CLUSTERS + 1} passed", said), said
    # The session has waited for the end of its template.
    assert processes_of(tmp_path) == {}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_workers_of_xdist_have_a_template_each(tmp_path: Path) -> None:
    with session(tmp_path, MANY_CLUSTERS.replace("def test_every", "def every"), "-n", "2") as running:
        said, _ = running.communicate(timeout=10 * TIMEOUT_S)
    assert running.returncode == 0, said
    assert processes_of(tmp_path) == {}


@pytest.mark.soak
@pytest.mark.parametrize("number", range(KILLED_SESSIONS))
def test_a_session_killed_while_a_cluster_runs_leaves_only_its_data(tmp_path: Path, number: int) -> None:
    brokers = 1 if number % 2 else 3
    with session(tmp_path, RUNNING_CLUSTER.format(brokers=brokers), "-s") as running:
        assert running.stdout is not None
        said = ""
        while "running" not in said:
            line = running.stdout.readline()
            assert line, said
            said += line
        processes = processes_of(tmp_path)
        assert sum(name.startswith("tidelog-node-") for name in processes.values()) == brokers
        directory = Path((tmp_path / "directory").read_text())
        ports = ports_of(directory)
        sockets = sockets_on(ports)
        assert len(sockets) >= len(ports)
        running.kill()
        assert running.wait(TIMEOUT_S) == -signal.SIGKILL
        # Also no process that holds the session's output.
        running.stdout.read()
    check_gone(processes)
    assert processes_of(tmp_path) == {}
    # Another cluster of this machine may have taken one of the ports by now, with sockets of its own.
    assert sockets & sockets_on(ports) == set()
    assert (directory / "temporary").exists(), "a later session removes it"
