"""`tidelog.testing.Cluster`, as other people's tests use it."""

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.testing import Cluster, ClusterError


def test_a_cluster_for_the_length_of_a_block() -> None:
    with Cluster() as cluster:
        directory = cluster.directory
        cluster.create_topic("orders", partitions=2, replication_factor=1, config={"min.insync.replicas": "1"})
        leader = cluster.leader("orders", 0)
        Commands(cluster.bootstrap).run("produce", "orders", "--partition", "0", stdin="1\n2\n")
        (replica,) = cluster.replicas("orders", 0)
        assert (replica.broker, replica.log_end_offset, replica.high_watermark, replica.in_isr) == (1, 2, 2, True)
        before = cluster.pid(leader)
        cluster.kill(leader)
        assert cluster.pid(leader) is None
        cluster.start(leader)
        assert cluster.pid(leader) not in (None, before)
        assert cluster.wait_leader("orders", 0) == leader
        cluster.wait_isr("orders", 0, {1})
        assert cluster.replicas("orders", 0)[0].log_end_offset == 2
        cluster.pause(1)
        cluster.resume(1)
        cluster.stop(1)
        cluster.start(1)
        with pytest.raises(ClusterError, match=r"waited 0\.1 s for a leader of orders-0 other than"):
            cluster.wait_leader("orders", 0, not_in=[1], timeout=0.1)
    assert not directory.exists()
    with pytest.raises(ClusterError, match="not running"):
        _ = cluster.bootstrap


@pytest.mark.rule("C3")
def test_three_brokers_survive_the_one_that_led() -> None:
    with Cluster(brokers=3) as cluster:
        assert len(cluster.bootstrap.split(",")) == 3
        cluster.create_topic("orders", partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        tidelog = Commands(cluster.bootstrap)
        tidelog.run("produce", "orders", stdin="1\n2\n")
        leader = cluster.leader("orders", 0)
        cluster.kill(leader)
        successor = cluster.wait_leader("orders", 0, not_in=[leader])
        tidelog.run("produce", "orders", stdin="3\n")
        views = {view.broker: view for view in cluster.replicas("orders", 0)}
        assert views[leader].log_end_offset is None and not views[leader].in_isr
        assert views[successor].is_leader and views[successor].high_watermark == 3
        cluster.start(leader)
        cluster.wait_isr("orders", 0, {1, 2, 3})
        follower = next(node for node in (1, 2, 3) if node not in (leader, successor))
        cluster.pause(follower)
        assert cluster.leader("orders", 0) == successor
        views = {view.broker: view for view in cluster.replicas("orders", 0)}
        assert views[follower].log_end_offset is None and views[leader].log_end_offset == 3
        cluster.resume(follower)
        cluster.wait_isr("orders", 0, {1, 2, 3})
        assert [view.log_end_offset for view in cluster.replicas("orders", 0)] == [3, 3, 3]
        read = tidelog.run("consume", "orders", "--from-beginning", "--max", "3")
        assert read.split() == ["1", "2", "3"]


def test_data_given_is_data_kept(tmp_path: Path) -> None:
    with Cluster(data=tmp_path / "mine") as cluster:
        cluster.create_topic("orders")
        bootstrap = cluster.bootstrap
    with Cluster(data=tmp_path / "mine") as cluster:
        assert cluster.bootstrap == bootstrap
        assert cluster.leader("orders", 0) == 1


def test_a_block_that_fails_keeps_its_logs() -> None:
    with pytest.raises(RuntimeError) as caught, Cluster():
        raise RuntimeError("the test failed")
    (note,) = caught.value.__notes__
    kept = Path(note.rpartition(" ")[2])
    assert (kept / "node-1" / "console.log").exists()
    shutil.rmtree(kept)


def test_what_cannot_be_started_says_why() -> None:
    with pytest.raises(ClusterError, match=r"num\.partitions"), Cluster(config={"num.partitions": "x"}):
        pass
    with pytest.raises(ClusterError, match="too many for one machine"), Cluster(brokers=100):
        pass


def test_the_fixture_of_the_plugin(tmp_path: Path) -> None:
    """In a pytest of its own: the plugin may or may not be installed in ours."""
    (tmp_path / "test_orders.py").write_text(
        """
import pytest

@pytest.mark.tidelog(config={"num.partitions": "7"})
def test_given_what_was_asked_for(tidelog_cluster):
    tidelog_cluster.create_topic("orders", partitions=-1)
    assert tidelog_cluster.leader("orders", 6) == 1

def test_that_fails(tidelog_cluster):
    assert tidelog_cluster.brokers == 2
"""
    )
    installed = any(point.value == "tidelog.testing.plugin" for point in entry_points(group="pytest11"))
    options = [] if installed else ["-p", "tidelog.testing.plugin"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    kept = Path(ended.stdout.partition("kept in ")[2].partition("\n")[0])
    assert "--- node 1 ---" in ended.stdout and kept.is_dir()
    shutil.rmtree(kept)
