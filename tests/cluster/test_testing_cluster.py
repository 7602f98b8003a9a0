"""`tidelog.testing.Cluster`, as other people's tests use it."""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.cluster.supervisor import Supervisor
from tidelog.testing import Cluster, ClusterError
from tidelog.testing.cluster import CLUSTERS_VARIABLE
from tidelog.testing.faults import Faults


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


def test_ctrl_c_during_the_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLUSTERS_VARIABLE, str(tmp_path))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Another module's cluster may still run in this process.
    threads = set(threading.enumerate())
    nodes = []

    async def interrupted(supervisor: Supervisor) -> None:
        for node in supervisor.layout.nodes:
            await supervisor.node(node.id).start()
            nodes.append(os.pidfd_open(supervisor.status()[0].pid or 0))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Supervisor, "start_all", interrupted)
    cluster = Cluster()
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.__enter__()
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []
    (node,) = nodes
    assert select.select([node], [], [], 0)[0], "the node still runs"
    os.close(node)
    assert "tidelog-cluster" not in [thread.name for thread in set(threading.enumerate()) - threads]
    # Closed already.
    cluster.__exit__(None, None, None)


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


def test_in_an_event_loop() -> None:
    def threads() -> int:
        return sum(thread.name == "tidelog-cluster" for thread in threading.enumerate())

    async def story() -> None:
        # Tests that share a cluster may have one running.
        before = threads()
        async with Cluster() as cluster:
            await asyncio.to_thread(cluster.create_topic, "orders")
            directory = cluster.directory
        assert not directory.exists()
        cancelled = asyncio.create_task(Cluster().__aenter__())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert threads() == before

    asyncio.run(story())


def test_clusters_of_several_threads_at_once() -> None:
    together = threading.Barrier(2, timeout=TIMEOUT_S)

    def story() -> str:
        with Cluster() as cluster:
            # Both run now.
            together.wait()
            cluster.create_topic("orders")
            return cluster.bootstrap

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(story), threads.submit(story)
        assert first.result(TIMEOUT_S) != second.result(TIMEOUT_S)


def test_a_forked_process_neither_controls_nor_ends_the_cluster() -> None:
    with Cluster() as cluster:
        bootstrap, directory = cluster.bootstrap, cluster.directory
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(ClusterError) as caught:
                    cluster.kill(1)
                cluster.__exit__(None, None, None)
                os.write(write_end, str(caught.value).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        with open(read_end) as answer:
            assert answer.read().startswith(f"this cluster belongs to process {os.getpid()}, which forked this one")
        os.waitpid(child, 0)
        Commands(bootstrap).run("topics", "list")
        assert directory.exists()


def test_a_stopped_cluster_is_not_held_by_a_forked_process() -> None:
    """It has copies of every descriptor of its parent, and may live on."""
    with Cluster() as cluster:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        directory = cluster.directory
    assert not directory.exists()
    with Cluster() as again:
        again.create_topic("orders")
    os.close(write_end)
    os.close(read_end)
    os.waitpid(child, 0)


def run_pytest(directory: Path, *options: str) -> str:
    """In a process of its own: the plugin may or may not be installed in ours."""
    installed = any(point.value == "tidelog.testing.plugin" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "tidelog.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *plugin, *options]
    ended = subprocess.run(
        [*command, str(directory)], capture_output=True, text=True, cwd=directory, timeout=TIMEOUT_S, check=False
    )
    return ended.stdout + ended.stderr


def test_the_fixtures_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(
        """
import pytest

@pytest.mark.tidelog(config={"num.partitions": "7"})
def test_given_what_was_asked_for(tidelog_cluster):
    tidelog_cluster.create_topic("orders", partitions=-1)
    assert tidelog_cluster.leader("orders", 6) == 1

@pytest.mark.tidelog(config={"num.partitions": "7"})
@pytest.mark.tidelog_topic(partitions=-1)
def test_given_it_also_without_naming_the_cluster(tidelog_topic, tidelog_producer):
    assert len(tidelog_producer.list_topics(tidelog_topic, 30).topics[tidelog_topic].partitions) == 7

@pytest.mark.tidelog(brokers=3)
def test_that_wants_another_cluster_than_the_shared_one_is(tidelog_shared_cluster):
    pass

def test_that_fails(tidelog_cluster):
    assert tidelog_cluster.brokers == 2

@pytest.mark.tidelog_topic(partitions=2)
@pytest.mark.tidelog_faults("pause", "slow", hold_s=0.01, pause_s=0.01)
def test_under_faults(tidelog_topic, tidelog_producer, tidelog_consumer, tidelog_shared_cluster):
    tidelog_producer.produce(tidelog_topic, b"1")
    assert tidelog_producer.flush(30) == 0
    assert tidelog_consumer(tidelog_topic).poll(30).value() == b"1"

def test_after_faults(tidelog_topic, tidelog_shared_cluster):
    assert tidelog_shared_cluster.leader(tidelog_topic, 0) == 1
    tidelog_shared_cluster.kill(1)

def test_after_a_kill(tidelog_topic, tidelog_shared_cluster):
    assert tidelog_shared_cluster.leader(tidelog_topic, 0) == 1
    tidelog_shared_cluster.delete_topic(tidelog_topic)

@pytest.fixture
def application(tidelog_bootstrap):
    raise RuntimeError("it does not start")

def test_whose_fixture_fails(application):
    pass

@pytest.mark.tidelog_topic(2)
def test_that_cannot_be_understood(tidelog_topic):
    pass

@pytest.fixture
def closing(tidelog_bootstrap):
    yield
    raise RuntimeError("it does not stop")

@pytest.mark.tidelog_faults("slow", hold_s=0.01, pause_s=0.01)
def test_whose_fixture_fails_afterwards(closing):
    pass

@pytest.mark.tidelog_faults("kill")
def test_of_nothing_that_faults_could_strike():
    pass
"""
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\ntidelog_config = group.initial.rebalance.delay.ms=0\n")
    # Two workers, so two shared clusters beside each other.
    said = run_pytest(tmp_path, "-n", "2")
    assert "1 failed, 6 passed, 5 errors" in said, said
    assert "@pytest.mark.tidelog configures tidelog_cluster" in said
    assert "@pytest.mark.tidelog_topic takes keyword arguments only, not (2,)" in said
    assert "@pytest.mark.tidelog_faults needs a test with a cluster" in said
    kept = Path(said.partition("kept in ")[2].partition("\n")[0])
    assert "listening on" in said and kept.is_dir()
    # Of the test that failed, of those that never began and of the one that did not end well.
    assert said.count("- tidelog node 1 -") == 4
    assert said.count("- tidelog faults -") == 1
    shutil.rmtree(kept)


def test_the_example_of_testing_an_application() -> None:
    said = run_pytest(Path(__file__).parents[2] / "examples" / "testing-your-app")
    assert "3 passed" in said, said


def test_faults_that_do_not_exist_are_not_waited_for() -> None:
    for kinds in ([], ["kill", "dance"]):
        with pytest.raises(ValueError, match="choose from kill, stop, pause, isolate, slow"):
            Faults(Cluster(), kinds)


def test_the_plugin_loads_nothing_of_ours_before_a_test_wants_it() -> None:
    script = (
        "import sys, tidelog.testing.plugin;"
        "sys.exit(sorted(each for each in sys.modules if each.startswith('tidelog')) != "
        "['tidelog', 'tidelog.testing', 'tidelog.testing.plugin'])"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
