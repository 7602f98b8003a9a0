"""`tidelog node` and `tidelog format` as processes: what they say, how they end."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.commands import TIMEOUT_S, Commands

from tidelog.client.client import Client
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN

# A node whose orderly end never comes.
DEAF = """
import asyncio, sys
from tidelog.broker import __main__ as broker, node

async def stop(self):
    print("stopping", flush=True)
    await asyncio.Event().wait()

node.Node.stop = stop
sys.exit(broker.main(sys.argv[1:]))
"""


def write_config(directory: Path, listener: str = "[::1]") -> Path:
    config = directory / "server.properties"
    settings = [
        "process.roles=broker,controller",
        "node.id=7",
        f"log.dirs={directory / 'a'},{directory / 'b'}",
        f"listeners=PLAINTEXT://{listener}:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names=CONTROLLER",
        "controller.quorum.voters=7@127.0.0.1:9093",
    ]
    config.write_text("\n".join(settings) + "\n")
    return config


@pytest.fixture
def tidelog() -> Commands:
    return Commands("127.0.0.1:1")


@contextmanager
def running(
    config: Path, command: tuple[str, ...] = ("-m", "tidelog", "node")
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A node and the port of its first listener."""
    with subprocess.Popen(
        [sys.executable, *command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line.startswith("started node.id=7 listeners=PLAINTEXT://"), process.stderr.read()
            yield process, int(line.split(",CONTROLLER")[0].rsplit(":", 1)[1])
        finally:
            process.kill()


def error_of(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.read()


def test_a_node_from_a_file_serves_ipv6_warns_and_stops_in_order(tmp_path: Path, tidelog: Commands) -> None:
    config = write_config(tmp_path)
    assert "tidelog format" in tidelog.run_process("node", "--config", str(config), status=1)
    said = tidelog.run_process("format", "--config", str(config), "--cluster-id", "my_cluster-1")
    assert said == f"node 7 formatted for cluster my_cluster-1: {tmp_path}/a, {tmp_path}/b\n"
    typo = tmp_path / "typo.properties"
    typo.write_text(config.read_text() + "no.such.key=1\n")
    with running(typo) as (process, port):
        here = Commands(f"[::1]:{port}")
        here.run("topics", "create", "orders", "--partitions", "2")
        here.run("produce", "orders", stdin="1\n2\n")
        assert sorted(here.run("consume", "orders", "--from-beginning", "--max", "2").split()) == ["1", "2"]
        # A second process on the same directories is one line.
        assert "locked" in tidelog.run_process("node", "--config", str(config), status=1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert "WARNING unknown config key no.such.key is ignored" in error_of(process)
    for directory in ("a", "b"):
        assert (tmp_path / directory / CLEAN_SHUTDOWN).exists()
        assert any((tmp_path / directory).glob("orders-*"))
    assert "unknown config key no.such.key" in (tmp_path / "a" / "server.log").read_text()


@pytest.mark.rule("C10")
def test_a_node_does_without_a_directory_that_cannot_be_read(tmp_path: Path, tidelog: Commands) -> None:
    """Its first one, where it would write its own log too."""
    config = write_config(tmp_path)
    config.write_text(config.read_text() + f"metadata.log.dir={tmp_path / 'metadata'}\n")
    tidelog.run_process("format", "--config", str(config))
    first = tmp_path / "a"
    first.rename(tmp_path / "put aside")
    # Whoever looks into it is told ELOOP, root too.
    first.symlink_to(first)
    with running(config) as (process, port):
        here = Commands(f"[::1]:{port}")
        here.run("topics", "create", "orders", "--partitions", "2")
        here.run("produce", "orders", stdin="1\n2\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert f"continuing without a log directory that cannot be read: ELOOP on {first}" in error_of(process)
    assert len(list((tmp_path / "b").glob("orders-*"))) == 2
    assert "continuing without a log directory" in (tmp_path / "b" / "server.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_second_signal_does_not_wait(tmp_path: Path, tidelog: Commands, number: signal.Signals) -> None:
    config = write_config(tmp_path)
    tidelog.run_process("format", "--config", str(config))
    with running(config, ("-c", DEAF)) as (process, _):
        process.send_signal(number)
        assert process.stdout is not None and process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 1
        assert "Traceback" not in error_of(process)
    assert not (tmp_path / "a" / CLEAN_SHUTDOWN).exists()


def test_without_a_host_clients_are_told_the_machines_name(tmp_path: Path, tidelog: Commands) -> None:
    config = write_config(tmp_path, "")
    tidelog.run_process("format", "--config", str(config))

    async def told(port: int) -> list[tuple[str, int]]:
        async with Client(f"127.0.0.1:{port}") as client:
            await client.refresh([])
            return [(at.host, at.port) for at in client.metadata.brokers.values()]

    with running(config) as (_, port):
        assert asyncio.run(told(port)) == [(socket.getfqdn(), port)]


def test_mistakes_are_one_line(tmp_path: Path, tidelog: Commands) -> None:
    config = write_config(tmp_path)
    for command in ("node", "format"):
        assert "cannot read" in tidelog.run_process(command, "--config", str(tmp_path / "nowhere"), status=1)
        assert "cannot read" in tidelog.run_process(command, "--config", str(tmp_path), status=1)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\0")
    assert f"{binary} is not UTF-8 text" in tidelog.run_process("node", "--config", str(binary), status=2)
    for bad in ("two words", "a\nb", "x" * 101):
        assert "--cluster-id" in tidelog.run_process("format", "--config", str(config), "--cluster-id", bad, status=2)
    assert not (tmp_path / "a").exists()
    config.write_text(config.read_text() + "num.partitions=none\n")
    assert "num.partitions=none" in tidelog.run_process("format", "--config", str(config), status=2)
    config.write_text(config.read_text().replace("[::1]:0", "0.0.0.0:0").replace("num.partitions=none\n", ""))
    assert "cannot advertise" in tidelog.run_process("node", "--config", str(config), status=2)


def test_a_log_of_its_own_that_cannot_be_written_is_one_line(tmp_path: Path, tidelog: Commands) -> None:
    config = write_config(tmp_path)
    tidelog.run_process("format", "--config", str(config))
    (tmp_path / "a" / "server.log").mkdir()
    assert "server.log: Is a directory" in tidelog.run_process("node", "--config", str(config), status=1)
