"""Commands over the control socket."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.unit.cluster import fake_cluster

from tidelog.cluster import control_socket
from tidelog.cluster.control import MAX_LINE_BYTES, ControlServer, NoSupervisor, call
from tidelog.cluster.detach import cluster_status
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir


async def ask(directory: ClusterDir, command: str, **fields: object) -> dict[str, object]:
    return await asyncio.to_thread(lambda: call(directory, command, **fields))


async def test_status_and_faults(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        down = asyncio.Event()
        control = ControlServer(supervisor, on_down=down.set)
        await control.start()
        directory = supervisor.directory
        try:
            status = await asyncio.to_thread(cluster_status, directory)
            assert status["supervised"] and status["nodes"][0]["state"] == "running"
            for command, state in (
                ("pause", "paused"),
                ("resume", "running"),
                ("kill", "killed"),
                ("start", "starting"),
                ("stop", "stopped"),
            ):
                if command == "start":
                    state = "running"
                await ask(directory, command, node=1)
                assert supervisor.status()[0].state == state
            with pytest.raises(ClusterError, match="node 1 is not running: its state is stopped"):
                await ask(directory, "kill", node=1)
            with pytest.raises(ClusterError, match="no node 9") as caught:
                await ask(directory, "kill", node=9)
            assert caught.value.status == 1
            with pytest.raises(ClusterError, match="cannot be isolated from itself"):
                await ask(directory, "isolate", node=1, **{"from": [1]})
            with pytest.raises(ClusterError, match="list of node ids"):
                await ask(directory, "isolate", node=1, **{"from": "2"})
            with pytest.raises(ClusterError, match="number of milliseconds"):
                await ask(directory, "slow", node=1)
            with pytest.raises(ClusterError, match="slowed by 0 to"):
                await ask(directory, "slow", node=1, ms=-1)
            await ask(directory, "heal")
            with pytest.raises(ClusterError, match="needs a node id"):
                await ask(directory, "kill", node="one")
            with pytest.raises(ClusterError, match="unknown command"):
                await ask(directory, "dance")
            asked = asyncio.create_task(ask(directory, "down"))
            await down.wait()
            assert not asked.done()
            control.cluster_stopped()
            await asked
        finally:
            await control.close()
        assert not directory.control_socket.exists()
        with pytest.raises(NoSupervisor):
            await ask(directory, "status")


async def test_what_is_no_command_does_no_harm(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        control = ControlServer(supervisor, on_down=lambda: None)
        await control.start()

        def say(line: bytes) -> bytes:
            with control_socket.connect(supervisor.directory.control_socket, 5.0) as connection:
                connection.sendall(line)
                return connection.makefile("rb").readline()

        try:
            assert not json.loads(await asyncio.to_thread(say, b"hello\n"))["ok"]
            assert not json.loads(await asyncio.to_thread(say, b"[]\n"))["ok"]
            assert await asyncio.to_thread(say, b"x" * (MAX_LINE_BYTES + 2) + b"\n") == b""
            assert json.loads(await asyncio.to_thread(say, b'{"command": "status"}\n'))["ok"]
        finally:
            await control.close()


async def test_status_without_a_supervisor(tmp_path: Path) -> None:
    async with fake_cluster.running(tmp_path / "data") as supervisor:
        directory = supervisor.directory
        # As when a detached supervisor was killed: the node runs, and nobody answers for it.
        status = await asyncio.to_thread(cluster_status, directory)
        assert not status["supervised"]
        assert status["nodes"][0]["pid"] == supervisor.status()[0].pid
        await supervisor.stop_all()
        status = await asyncio.to_thread(cluster_status, directory)
        assert status["nodes"][0]["state"] == "stopped" and status["nodes"][0]["pid"] is None
    with pytest.raises(ClusterError, match="there is no cluster"):
        cluster_status(ClusterDir(tmp_path / "elsewhere"))
