"""Nodes that must not join: a lost disk, another cluster's id, a damaged metadata log, another node's directory.

Each runs as a process beside the two thirds of a cluster that are well. It says why in one line, ends with status 1,
and the cluster goes on deciding as if nothing had happened.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.quorum.metadata_log import partition_dir
from tidelog.storage.checkpoints import META_PROPERTIES
from tidelog.testing import Cluster

OUTSIDER = 3
# A snapshot as soon as there is anything to put into it: the node that stops leaves one behind.
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(brokers=3, data=tmp_path_factory.mktemp("cluster") / "data", config=SNAPSHOTS) as running:
        for number in range(20):
            running.create_topic(f"before-{number}", replication_factor=3)
        running.stop(OUTSIDER)
        yield running


@pytest.fixture
def data(cluster: Cluster, tmp_path: Path) -> Path:
    """A copy of what the third node left, to be damaged."""
    return shutil.copytree(_node(cluster, OUTSIDER) / "data", tmp_path / "data")


def _node(cluster: Cluster, node: int) -> Path:
    return cluster.directory / f"node-{node}"


def _refused(cluster: Cluster, data: Path, *settings: str) -> str:
    """Runs the third node on `data`; its last words. Meanwhile topics are created."""
    command = ["-m", "tidelog", "node", "--config", str(_node(cluster, OUTSIDER) / "server.properties")]
    for setting in (f"log.dirs={data}", *settings):
        command += ["--set", setting]
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            topic = f"meanwhile-{process.pid}"
            cluster.create_topic(topic, replication_factor=2)
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == 1, err
    assert "started" not in out
    assert "Traceback" not in err
    # What it did before it found out may stand in its log; why it ends is said once, and last.
    *_, last = err.splitlines()
    assert last.startswith("tidelog: ")
    assert err.count("tidelog: ") == 1
    assert " ERROR " not in err
    described = Commands(cluster.bootstrap).json("topics", "describe", topic)
    assert described[0]["partitions"][0]["leader"] in (1, 2)
    return last


def _log(data: Path) -> Path:
    (segment, *_) = sorted(
        (path for path in Path(partition_dir(str(data))).glob("*.log") if path.stat().st_size),
        key=lambda path: path.stat().st_size,
    )[-1:]
    return segment


def _flip_a_committed_byte(data: Path) -> str:
    segment = _log(data)
    content = bytearray(segment.read_bytes())
    # Behind the first batch's header: its records, which the CRC covers.
    content[70] ^= 0x10
    segment.write_bytes(content)
    return "the metadata log is damaged"


def _lose_the_vote(data: Path) -> str:
    (Path(partition_dir(str(data))) / QUORUM_STATE).unlink()
    return "may not vote again"


def _garble_the_vote(data: Path) -> str:
    (Path(partition_dir(str(data))) / QUORUM_STATE).write_bytes(b"{")
    return "malformed"


def _cut_a_snapshot(data: Path) -> str:
    newest = sorted(Path(partition_dir(str(data))).glob("*.checkpoint"))[-1]
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size - 40)
    return newest.name


def _lose_the_metadata(data: Path) -> str:
    shutil.rmtree(partition_dir(str(data)))
    return "may not vote again"


def _lose_the_disk(data: Path) -> str:
    shutil.rmtree(data)
    data.mkdir()
    return "is not formatted"


def _lose_the_mount(data: Path) -> str:
    shutil.rmtree(data)
    return "is not formatted"


def _belong_to_another_node(data: Path) -> str:
    meta = data / META_PROPERTIES
    meta.write_text(meta.read_text().replace(f"node.id={OUTSIDER}", "node.id=7"))
    return "belongs to node 7"


@pytest.mark.parametrize(
    "harm",
    [
        _flip_a_committed_byte,
        _lose_the_vote,
        _garble_the_vote,
        _cut_a_snapshot,
        _lose_the_metadata,
        _lose_the_disk,
        _lose_the_mount,
        _belong_to_another_node,
    ],
)
@pytest.mark.rule("Q1", "Q8")
def test_a_directory_that_is_not_what_it_was(cluster: Cluster, data: Path, harm: Callable[[Path], str]) -> None:
    reason = harm(data)
    assert reason in _refused(cluster, data)


def test_a_node_under_another_id(cluster: Cluster, data: Path) -> None:
    assert "belongs to node 3" in _refused(cluster, data, "node.id=8")


@pytest.mark.parametrize("roles", ["broker,controller", "controller", "broker"])
def test_a_node_of_another_cluster(cluster: Cluster, tmp_path: Path, roles: str) -> None:
    """Formatted elsewhere, started with this quorum's addresses: the quorum does not know its cluster."""
    properties = tmp_path / "server.properties"
    mine = (_node(cluster, OUTSIDER) / "server.properties").read_text().splitlines()
    properties.write_text("\n".join(mine))
    settings = [f"log.dirs={tmp_path / 'strange'}", f"process.roles={roles}"]
    listeners = next(line for line in mine if line.startswith("listeners=")).removeprefix("listeners=").split(",")
    if roles != "broker,controller":
        kept = [each for each in listeners if each.startswith("CONTROLLER") == (roles == "controller")]
        settings += ["listeners=" + ",".join(kept)]
        properties.write_text("\n".join(line for line in mine if not line.startswith("advertised.listeners")))
    joining = ("--no-initial-controllers",) if "controller" in roles else ()
    command = ["format", "--config", str(properties), "--cluster-id", "another-cluster", *joining]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run([sys.executable, "-m", "tidelog.broker", *command], check=True, timeout=TIMEOUT_S)
    last = _refused(cluster, tmp_path / "strange", *settings[1:])
    assert "belongs to cluster another-cluster" in last


def test_a_metrics_port_in_use(cluster: Cluster, data: Path) -> None:
    taken = cluster.metrics_url(1).rpartition(":")[2].partition("/")[0]
    words = _refused(cluster, data, f"tidelog.metrics.port={taken}")
    assert f"cannot listen on METRICS://localhost:{taken}" in words


def test_the_third_node_comes_back_as_it_was(cluster: Cluster) -> None:
    cluster.create_topic("after", replication_factor=2)
    cluster.start(OUTSIDER)
    assert cluster.wait_leader("after", 0) in (1, 2)
    cluster.create_topic("three", replication_factor=3)
