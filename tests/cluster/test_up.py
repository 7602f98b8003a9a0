"""`up`, `down`, `status`, `chaos` as processes, and who outlives whom."""

import errno
import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from tests.cluster.commands import COMMAND, TIMEOUT_S, Commands, foreground_up
from tests.cluster.ports import consecutive_ports

# What is shown here is the same for any number, and one starts sooner; `test_three_nodes` has more.
ONE = ("--brokers", "1")
# Tests that run beside each other would want its port at the same time.
NO_PAGE = ("--ui-port", "0")


@pytest.fixture
def port() -> int:
    return consecutive_ports(1)


def pid_of(tidelog: Commands, data: Path) -> int:
    pid: int = tidelog.json("status", "--data", str(data))["nodes"][0]["pid"]
    return pid


@contextmanager
def page_port_in_use() -> Iterator[None]:
    """Holds the default port of the page, unless another program does."""
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 8080))
            taken.listen()
        except OSError as error:
            assert error.errno == errno.EADDRINUSE
        yield


def ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], TIMEOUT_S)[0])


def test_up_keeps_its_word(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    tidelog = Commands(f"localhost:{port}")
    with foreground_up(data, *ONE, "--port", str(port), "--set", "num.partitions=4") as (process, ready):
        metrics = json.loads((data / "cluster.json").read_text())["nodes"][0]["metrics_port"]
        url = f"http://127.0.0.1:{metrics}/metrics"
        assert ready == {"bootstrap": f"127.0.0.1:{port}", "ui": "-", "metrics": url, "data": str(data)}
        with urlopen(url, timeout=TIMEOUT_S) as answer:
            assert "\nkafka_server_replicamanager_underreplicatedpartitions 0\n" in answer.read().decode()
        tidelog.run("topics", "create", "kept")
        assert len(tidelog.json("topics", "describe", "kept")[0]["partitions"]) == 4
        assert (
            tidelog.run("produce", "kept", "--bootstrap", f"[::1]:{port}", stdin="1\n2\n3\n")
            == "3 records written to kept\n"
        )
        assert (data / "control.sock").stat().st_mode & 0o777 == 0o600
        # A second one is refused, and changes nothing.
        assert "already" in tidelog.run_process("up", "--data", str(data), *NO_PAGE, status=1)
        for verb, state in (("pause", "paused"), ("resume", "running"), ("kill", "killed"), ("start", "running")):
            assert tidelog.json("chaos", verb, "1", "--data", str(data)) == {"command": verb, "node": 1}
            assert tidelog.json("status", "--data", str(data))["nodes"][0]["state"] == state
        lines = {
            ("pause", "1"): "node 1 paused",
            ("resume", "1"): "node 1 resumed",
            ("slow", "1", "--ms", "1"): "node 1 slowed by 1 ms",
            ("isolate", "1"): "node 1 isolated from all other nodes",
            ("heal",): "isolation and slowness ended on all nodes",
        }
        for words, line in lines.items():
            assert tidelog.run("chaos", *words, "--data", str(data)) == f"{line}\n"
        assert tidelog.run("chaos", "heal", "--data", str(data), "-q") == ""
        assert "no node 2" in tidelog.run("chaos", "kill", "2", "--data", str(data), status=1)
        node = os.pidfd_open(pid_of(tidelog, data))
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        assert ended(node)
        os.close(node)
    assert not (data / "control.sock").exists()
    cluster_id = json.loads((data / "cluster.json").read_text())["cluster_id"]
    # The port is remembered, and so is everything else.
    with foreground_up(data) as (process, ready):
        assert ready["bootstrap"] == f"127.0.0.1:{port}"
        assert sorted(tidelog.run("consume", "kept", "--from-beginning", "--max", "3").split()) == ["1", "2", "3"]
        assert json.loads((data / "cluster.json").read_text())["cluster_id"] == cluster_id
        assert tidelog.json("down", "--data", str(data)) == {"data": str(data), "stopped": True}
        assert process.wait(TIMEOUT_S) == 0
    assert "no cluster is running" in tidelog.run("down", "--data", str(data), status=1)


def test_nodes_die_with_a_supervisor_that_is_killed_and_the_data_lives(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    tidelog = Commands(f"127.0.0.1:{port}")
    with foreground_up(data, *ONE, "--port", str(port)) as (process, _):
        tidelog.run("produce", "orders", stdin="survivor\n")
        tidelog.run("chaos", "pause", "1", "--data", str(data))
        node = os.pidfd_open(pid_of(tidelog, data))
        process.kill()
        assert ended(node), "a paused node outlived its supervisor"
        os.close(node)
    # The socket of the dead one lies around; nobody minds.
    with foreground_up(data):
        assert tidelog.run("consume", "orders", "--from-beginning", "--max", "1") == "survivor\n"


def test_detached(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    tidelog = Commands(f"127.0.0.1:{port}")
    up = ("up", *ONE, "--data", str(data), "--port", str(port), "--detach", "--json")
    with page_port_in_use():
        ready = json.loads(tidelog.run_process(*up))
    page = urlsplit(ready.pop("ui"))
    assert page.hostname == "127.0.0.1" and page.port != 8080
    assert page.fragment == f"token={(data / 'page.token').read_text().strip()}"
    metrics = json.loads((data / "cluster.json").read_text())["nodes"][0]["metrics_port"]
    url = f"http://127.0.0.1:{metrics}/metrics"
    assert ready == {"bootstrap": f"127.0.0.1:{port}", "metrics": url, "data": str(data)}
    try:
        tidelog.run("produce", "orders", stdin="still here\n")
        assert tidelog.json("status", "--data", str(data))["supervised"]
        # Even without its supervisor a detached node lives, is found, and can be stopped.
        os.kill(int((data / "supervisor.lock").read_text()), signal.SIGKILL)
        assert tidelog.run("consume", "orders", "--from-beginning", "--max", "1") == "still here\n"
        status = tidelog.json("status", "--data", str(data))
        assert not status["supervised"] and status["nodes"][0]["state"] == "running"
        assert "tidelog down" in tidelog.run_process("up", "--data", str(data), *NO_PAGE, status=1)
        assert "no cluster is running" in tidelog.run("chaos", "kill", "1", "--data", str(data), status=1)
    finally:
        tidelog.run("down", "--data", str(data))
    assert tidelog.json("status", "--data", str(data))["nodes"][0]["pid"] is None


def test_a_bad_setting_is_the_users_mistake(tmp_path: Path, port: int) -> None:
    tidelog = Commands("127.0.0.1:1")
    line = tidelog.run_process(
        *("up", *ONE, *NO_PAGE, "--data", str(tmp_path / "d"), "--port", str(port), "--set", "num.partitions=x"),
        status=2,
    )
    assert "num.partitions" in line
    assert not (tmp_path / "d").exists()
    config = tmp_path / "server.properties"
    config.write_text("num.partition=2\n")
    refused = tidelog.run_process("node", "--config", str(config), "--set", "log.segment.byte=1", status=2)
    assert refused == "tidelog: unknown config key log.segment.byte: did you mean log.segment.bytes?\n"


def test_node_and_format(tmp_path: Path, port: int) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path / 'logs'}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:{port + 1}\n"
    )
    tidelog = Commands(f"127.0.0.1:{port}")
    assert "tidelog format" in tidelog.run_process("node", "--config", str(config), status=1)
    told = json.loads(tidelog.run_process("format", "--config", str(config), "--json"))
    assert (told["node_id"], told["formatted"]) == (1, [str(tmp_path / "logs")]) and told["cluster_id"]
    tidelog.run_process("format", "--config", str(tmp_path / "nowhere"), status=1)


def test_the_demo_ends_well(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    said = Commands("127.0.0.1:1").run_process("demo", "--seconds", "1", "--no-spark", "--report", str(report))
    assert "0 missing, 0 duplicates: nothing lost, no duplicates" in said
    assert "the Spark part is skipped: --no-spark was given" in said
    # Without the program on the PATH, the commands to copy name its path.
    assert "What to try next" in said and f"  {COMMAND} up --detach" in said
    assert "SIGKILL to node" in report.read_text() and "<svg" in report.read_text()
