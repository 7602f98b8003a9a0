"""The supervisor against nodes that do as they are told."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.ports import consecutive_ports
from tests.unit.cluster import fake_cluster

from tidelog.client.errors import ClientError
from tidelog.cluster.errors import BadRequest, ClusterError
from tidelog.cluster.layout import ClusterDir, NodeLayout
from tidelog.cluster.plan import ANY_PORT
from tidelog.cluster.run import run_cluster
from tidelog.cluster.states import NodeState
from tidelog.cluster.supervisor import NodeEvent, Supervisor


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


@contextmanager
def listening(port: int = 0) -> Iterator[int]:
    """A port that another program has."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield taken.getsockname()[1]


def state_of(pid: int) -> str:
    """The kernel's letter for a process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def pid_of(supervisor: Supervisor, node: int = 1) -> int:
    pid = supervisor.node(node).status().pid
    assert pid is not None
    return pid


async def test_a_cluster_starts_stops_and_goes_on_with_the_same_ports_and_id(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as first:
        layout = first.layout
        assert [node.state for node in first.status()] == ["running"]
        assert await first.stop_all() == []
        assert [node.state for node in first.status()] == ["stopped"]
    async with fake_cluster.running(tmp_path / "data") as second:
        assert second.layout == layout


async def until(seen: Callable[[], bool]) -> None:
    """The kernel stops a process when it next looks at it, which may be a moment after the signal."""
    async with asyncio.timeout(30):
        while not seen():
            await asyncio.sleep(0.001)


async def test_kill_start_and_orderly_stop(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        killed = pid_of(supervisor)
        await supervisor.kill(1)
        assert not alive(killed)
        assert supervisor.node(1).state is NodeState.KILLED
        assert supervisor.node(1).exit_status == -signal.SIGKILL
        with pytest.raises(ClusterError, match="node 1 is not running: its state is killed"):
            await supervisor.kill(1)
        await supervisor.start(1)
        assert pid_of(supervisor) != killed
        with pytest.raises(ClusterError, match="already running"):
            await supervisor.start(1)
        await supervisor.stop(1)
        assert supervisor.node(1).exit_status == 0


async def test_a_paused_node_is_stopped_by_the_kernel_and_can_be_resumed_killed_and_ended(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        pid = pid_of(supervisor)
        supervisor.pause(1)
        await until(lambda: state_of(pid) == "T")
        with pytest.raises(ClusterError, match="paused"):
            supervisor.pause(1)
        supervisor.resume(1)
        await until(lambda: state_of(pid) != "T")
        with pytest.raises(ClusterError, match="not paused"):
            supervisor.resume(1)
        supervisor.pause(1)
        await supervisor.stop(1)
        assert not alive(pid)
        await supervisor.start(1)
        supervisor.pause(1)
        await supervisor.kill(1)


async def test_a_node_that_is_paused_while_it_starts_goes_on_starting(tmp_path: Path) -> None:
    serving = asyncio.Event()

    async def probe(nodes: Sequence[NodeLayout]) -> None:
        if not serving.is_set():
            raise ClientError("not yet")

    def state() -> str:
        return supervisor.status()[0].state

    serving.set()
    async with fake_cluster.running(tmp_path / "data", probe=probe) as supervisor:
        await supervisor.kill(1)
        serving.clear()
        with pytest.raises(ClusterError, match="not ready within 0 s: not yet"):
            await supervisor.start(1, timeout_s=0)
        supervisor.pause(1)
        assert state() == "paused"
        supervisor.resume(1)
        assert state() == "starting"
        # Somebody still looks, though nobody waits.
        serving.set()
        await until(lambda: state() == "running")


async def test_a_node_that_answered_just_before_it_was_paused_goes_on_running(tmp_path: Path) -> None:
    async def probe(nodes: Sequence[NodeLayout]) -> None:
        if serving:
            supervisor.pause(1)

    serving = False
    async with fake_cluster.running(tmp_path / "data", probe=probe) as supervisor:
        await supervisor.kill(1)
        serving = True
        await supervisor.start(1)
        assert supervisor.status()[0].state == "paused"
        supervisor.resume(1)
        assert supervisor.status()[0].state == "running"


async def test_a_node_whose_directory_was_removed_is_stopped_all_the_same(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        shutil.rmtree(supervisor.directory.node_dir(1))
        await supervisor.stop(1)
        assert supervisor.node(1).state is NodeState.STOPPED


async def test_a_crash_is_noticed_and_told(tmp_path: Path) -> None:
    crashed = asyncio.Event()
    events: list[NodeEvent] = []

    def on_event(event: NodeEvent) -> None:
        events.append(event)
        if event.state is NodeState.CRASHED:
            crashed.set()

    async with fake_cluster.running(tmp_path / "data", on_event=on_event) as supervisor:
        os.kill(pid_of(supervisor), signal.SIGSEGV)
        await crashed.wait()
        assert "ended by SIGSEGV" in events[-1].detail
        assert supervisor.status()[0].state == "crashed"
        await supervisor.start(1)


async def test_a_node_that_does_not_come_up_is_told_with_its_last_words_and_status(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="exit status 2: tidelog: told to end") as caught:
        async with fake_cluster.running(tmp_path / "data", orders=["exit=2"]):
            pass
    assert caught.value.status == 2


async def test_a_node_deaf_to_sigterm_is_killed_in_the_end(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data", orders=["deaf=true"]) as supervisor:
        with pytest.raises(ClusterError, match="was killed"):
            await supervisor.stop(1, timeout_s=0.05)
        assert supervisor.node(1).state is NodeState.KILLED


async def test_a_port_in_use_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with listening() as port, pytest.raises(ClusterError) as caught:
        async with fake_cluster.running(tmp_path / "data", port=port):
            pass
    assert caught.value.message == f"port {port} is in use on 127.0.0.1: choose other ports with --port"
    assert is_empty(tmp_path)


async def test_a_port_that_cluster_json_chose_is_named_by_its_use(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        port = supervisor.layout.nodes[0].metrics_port
    with listening(port), pytest.raises(ClusterError) as caught:
        async with fake_cluster.running(tmp_path / "data"):
            pass
    assert f"port {port} is in use on 127.0.0.1: " in caught.value.message
    assert "cluster.json gives it to node 1 (metrics)" in caught.value.message


async def test_the_page_takes_a_free_port_if_its_default_is_in_use(tmp_path: Path) -> None:
    with listening() as busy:
        async with fake_cluster.running(tmp_path / "data", ui_port=busy, ui_port_may_move=True) as supervisor:
            assert supervisor.page is not None and supervisor.page.port not in (0, busy)
        with pytest.raises(ClusterError, match=f"port {busy} is in use .*--ui-port"):
            async with fake_cluster.running(tmp_path / "data", ui_port=busy):
                pass


async def test_the_page_leaves_its_default_port_to_a_broker(tmp_path: Path) -> None:
    port = consecutive_ports(1)
    async with fake_cluster.running(tmp_path / "data", port=port, ui_port=port, ui_port_may_move=True) as supervisor:
        assert supervisor.page is not None and supervisor.page.port != port


async def test_the_token_of_the_page_lives_as_long_as_the_directory(tmp_path: Path) -> None:
    async def token() -> str:
        async with fake_cluster.running(tmp_path / "data", ui_port=ANY_PORT) as supervisor:
            assert supervisor.page is not None and supervisor.page.url.endswith(f"#token={supervisor.page.token}")
            return supervisor.page.token

    first, kept = await token(), tmp_path / "data" / "page.token"
    assert len(first) >= 24 and await token() == first
    assert kept.stat().st_mode & 0o777 == 0o600
    # A file that others could read, or that holds no token of ours, is replaced.
    kept.chmod(0o644)
    second = await token()
    assert second != first and kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("guess")
    assert len(await token()) >= 24
    kept.unlink()
    kept.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(first)
    (tmp_path / "elsewhere").chmod(0o600)
    assert await token() != first and not kept.is_symlink()


@pytest.mark.parametrize("orders", [["exit=1"], ["format.error=no"]], ids=["node", "format"])
async def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, orders: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        async with fake_cluster.running(tmp_path / "new" / "data", orders=orders, brokers=3, ui_port=ANY_PORT):
            pass
    assert is_empty(tmp_path)
    assert "console.log" not in caught.value.message


async def test_a_start_that_fails_leaves_what_others_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "notes").write_text("mine")
    (data / "node-one").mkdir()
    with pytest.raises(ClusterError):
        async with fake_cluster.running(data, orders=["exit=1"]):
            pass
    assert sorted(path.name for path in data.iterdir()) == ["node-one", "notes"]


async def test_a_start_that_fails_never_removes_a_cluster_that_was_there(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data"):
        pass
    with pytest.raises(ClusterError, match=r"console\.log"):
        async with fake_cluster.running(tmp_path / "data", orders=["exit=1"]):
            pass
    async with fake_cluster.running(tmp_path / "data"):
        pass


@pytest.mark.parametrize(("partition", "kept"), [("orders-0", True), ("__replication_events-3", False)])
async def test_a_start_that_fails_keeps_partitions_that_clients_may_have_written(
    tmp_path: Path, partition: str, kept: bool
) -> None:
    # A broker serves before all of them do: a client may hold an acknowledgement already.
    with pytest.raises(ClusterError):
        async with fake_cluster.running(tmp_path / "data", orders=["exit=1", f"holds={partition}"]):
            pass
    assert (tmp_path / "data" / "node-1" / "data" / partition).exists() == kept
    assert (tmp_path / "data" / "cluster.json").exists() == kept


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_start_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    async def never_ready(nodes: Sequence[NodeLayout]) -> None:
        os.kill(os.getpid(), number)
        raise ClientError("not yet")

    with pytest.raises(ClusterError, match="stopped before the cluster was ready") as caught:
        await run_cluster(
            fake_cluster.request(tmp_path / "data"),
            on_ready=lambda _: pytest.fail("it is not ready"),
            on_event=lambda _: None,
            probe=never_ready,
        )
    assert caught.value.status == status
    assert is_empty(tmp_path)


async def test_a_start_that_is_cancelled_while_it_forks_loses_no_process(tmp_path: Path) -> None:
    supervisor = await Supervisor.create(fake_cluster.request(tmp_path / "data"), probe=fake_cluster.accepting)
    starting = asyncio.create_task(supervisor.start_all())
    # Once for the task to run to its first wait: for the new process.
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait((starting,))
    assert starting.cancelled() and supervisor.node(1).alive
    await supervisor.kill_all()
    await supervisor.close()
    assert is_empty(tmp_path)


async def test_a_second_supervisor_is_refused(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data"):
        with pytest.raises(ClusterError, match=f"already running in .*pid {os.getpid()}"):
            async with fake_cluster.running(tmp_path / "data"):
                pass


async def test_a_node_directory_found_empty_later_is_refused(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        await supervisor.stop_all()
    meta = ClusterDir(tmp_path / "data").log_dir(1) / "meta.properties"
    meta.unlink()
    with pytest.raises(ClusterError, match="missing or empty"):
        async with fake_cluster.running(tmp_path / "data"):
            pass
    assert not meta.exists()


async def test_node_directories_without_a_cluster_json_are_never_formatted(tmp_path: Path) -> None:
    (tmp_path / "data" / "node-1").mkdir(parents=True)
    with pytest.raises(ClusterError, match="move it away"):
        async with fake_cluster.running(tmp_path / "data"):
            pass


UNSTARTED = (
    "server.properties",
    ".server.properties.x7",
    "data/meta.properties",
    "data/bootstrap.checkpoint.tmp",
    "data/__cluster_metadata-0/quorum-state",
    "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint.part",
)


def write_nodes(data: Path, *files: str) -> None:
    """Two nodes, as a first start leaves them that is killed before it has written `cluster.json`."""
    data.mkdir()
    (data / "supervisor.lock").touch()
    for node in ("node-1", "node-2"):
        for file in files:
            (data / node / file).parent.mkdir(parents=True, exist_ok=True)
            (data / node / file).touch()


async def test_a_first_start_that_was_killed_is_done_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_nodes(data, *UNSTARTED)
    # If this one fails too, nothing is left of both.
    with pytest.raises(ClusterError, match="cheese"):
        async with fake_cluster.running(data, orders=["format.error=cheese"]):
            pass
    assert is_empty(data)
    data.rmdir()
    write_nodes(data, *UNSTARTED)
    async with fake_cluster.running(data):
        pass
    assert (data / "cluster.json").exists() and not (data / "node-2").exists()


@pytest.mark.parametrize(
    "file", ["console.log", "data/.lock", "data/orders-0/00000000000000000000.log", "data/__cluster_metadata-0/0.log"]
)
async def test_nodes_that_may_have_run_are_never_removed(tmp_path: Path, file: str) -> None:
    data = tmp_path / "data"
    write_nodes(data, *UNSTARTED)
    (data / "node-2" / file).parent.mkdir(exist_ok=True)
    (data / "node-2" / file).touch()
    before = set(data.rglob("*"))
    for _ in range(2):
        with pytest.raises(ClusterError, match=r"node-2 exists, .*move it away"):
            async with fake_cluster.running(data):
                pass
        assert set(data.rglob("*")) == before


@pytest.mark.parametrize("fails", [True, False])
async def test_new_ports_are_kept_once_the_cluster_serves_on_them(tmp_path: Path, fails: bool) -> None:
    data = tmp_path / "data"
    async with fake_cluster.running(data) as supervisor:
        old = supervisor.layout.nodes[0].port
    new = consecutive_ports(1)
    if fails:
        with pytest.raises(ClusterError):
            async with fake_cluster.running(data, port=new, orders=["exit=1"]):
                pass
    else:
        async with fake_cluster.running(data, port=new):
            pass
    layout = ClusterDir(data).load()
    assert layout is not None and layout.nodes[0].port == (old if fails else new)


async def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with fake_cluster.running(data):
        pass
    (data / "node-1" / "server.properties").unlink()
    (data / "node-1" / "server.properties").mkdir()
    with pytest.raises(ClusterError, match=r"cannot write .*server\.properties.*: Is a directory"):
        async with fake_cluster.running(data):
            pass


async def test_a_failed_format_leaves_no_half_made_cluster(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="formatting failed: the disk is made of cheese"):
        async with fake_cluster.running(tmp_path / "data", orders=["format.error=the disk is made of cheese"]):
            pass
    async with fake_cluster.running(tmp_path / "data"):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"brokers": 100}, "too many for one machine: at most 99"),
        ({"brokers": 0}, "at least one broker"),
        ({"settings": {"listeners": "PLAINTEXT://0.0.0.0:1"}}, "set by the cluster itself"),
        ({"port": 70000}, "1 broker does not fit between port 70000 and port 65535"),
    ],
)
async def test_requests_that_make_no_sense(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        async with fake_cluster.running(tmp_path / "data", **changes):
            pass
    assert is_empty(tmp_path)


async def test_five_nodes_three_of_them_controllers(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data", brokers=5) as supervisor:
        roles = {node.id: node.roles for node in supervisor.status()}
        assert [node for node in roles if "controller" in roles[node]] == [1, 2, 3]
        await supervisor.kill(2)
        assert [node.state for node in supervisor.status()] == ["running", "killed", "running", "running", "running"]
        await supervisor.start(2)
        with pytest.raises(ClusterError, match="no node 6"):
            await supervisor.kill(6)


async def test_a_directory_keeps_its_number_of_brokers(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data", brokers=2):
        pass
    with pytest.raises(ClusterError, match="has 2 brokers, not 3"):
        async with fake_cluster.running(tmp_path / "data", brokers=3):
            pass
    async with fake_cluster.running(tmp_path / "data", brokers=None) as supervisor:
        assert len(supervisor.layout.nodes) == 2


async def test_one_node_of_three_that_does_not_come_up_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="node 2: exit status 1: tidelog: told to end") as caught:
        async with fake_cluster.running(tmp_path / "data", brokers=3, orders=["exit=1", "exit.node=2"]):
            pass
    assert "\n" not in caught.value.message


async def test_the_first_node_back_after_the_quorum_was_lost_is_not_waited_for(tmp_path: Path) -> None:
    serving = asyncio.Event()

    async def probe(nodes: Sequence[NodeLayout]) -> None:
        if not serving.is_set():
            raise ClientError("no controller")

    serving.set()
    async with fake_cluster.running(tmp_path / "data", brokers=3, probe=probe) as supervisor:
        await supervisor.kill_all()
        serving.clear()
        await supervisor.start(1)
        assert supervisor.node(1).state is NodeState.STARTING
        second = asyncio.create_task(supervisor.start(2))
        await until(lambda: supervisor.node(2).state is NodeState.STARTING)
        assert not second.done()
        serving.set()
        await second
        await until(lambda: supervisor.node(1).state is NodeState.RUNNING)


async def test_every_controller_is_formatted_with_a_directory_id_of_its_own(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data", brokers=4) as supervisor:
        ids = {}
        for node in supervisor.layout.nodes:
            meta = (supervisor.directory.log_dir(node.id) / "meta.properties").read_text()
            ids[node.id] = meta.rpartition("directory.id=")[2].strip()
        assert ids.pop(4) == "none" and len(set(ids.values())) == 3
        assert all(not directory.startswith("-") for directory in ids.values())


@pytest.mark.parametrize("use_pipe", [False, True])
def test_nodes_end_when_their_supervisor_is_killed(tmp_path: Path, use_pipe: bool) -> None:
    """By the kernel's signal, and by the pipe that stands in for it elsewhere."""
    script = f"""
import asyncio, sys
from pathlib import Path
from typing import Any
from tidelog.cluster.process import NodeProcess
async def main():
    node = await NodeProcess.spawn(
        [sys.executable, "-I", "-S", "-c", "import threading; threading.Event().wait()"],
        Path({str(tmp_path / "console.log")!r}), dies_with_us=True, use_pipe={use_pipe},
    )
    print(node.pid, flush=True)
    await node.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        node = int(supervisor.stdout.readline())
        node_end = os.pidfd_open(node)
        try:
            assert alive(node)
            supervisor.kill()
            supervisor.wait()
            # A pidfd becomes readable when its process ends: no polling.
            assert select.select([node_end], [], [], 20)[0], "the node outlived its supervisor"
        finally:
            os.close(node_end)
