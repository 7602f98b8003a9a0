"""How `chaos`, `down` and `status` reach a running supervisor: a line of JSON each way over `DIR/control.sock`.

-> {"command": "kill", "node": 1}
<- {"ok": true}    or    {"ok": false, "error": "node 1 is paused", "status": 1}

`watch` is answered with a line of the same form as `status` whenever a node's state or links change, until the asker
hangs up; changes that come faster than it reads are told as one.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from tidelog.cluster import control_socket
from tidelog.cluster.errors import BadRequest, ClusterError
from tidelog.cluster.layout import ClusterDir
from tidelog.cluster.node import STOP_TIMEOUT_S
from tidelog.cluster.readiness import READY_TIMEOUT_S
from tidelog.cluster.supervisor import Supervisor

MAX_LINE_BYTES: Final = 64 * 1024
MAX_CONNECTIONS: Final = 32
# Longer than any command takes: a start waits for readiness, a stop for an orderly shutdown, and both say why they gave
# up waiting.
COMMAND_TIMEOUT_S: Final = max(READY_TIMEOUT_S, STOP_TIMEOUT_S) + 10.0

NODE_COMMANDS: Final = ("kill", "stop", "start", "pause", "resume", "isolate", "slow")


class ControlServer:
    """Answers commands; `on_down` is told when somebody asked the whole cluster to stop."""

    def __init__(self, supervisor: Supervisor, on_down: Callable[[], None]) -> None:
        self._supervisor = supervisor
        self._on_down = on_down
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        sock = control_socket.listen(self._supervisor.directory.control_socket)
        self._server = await asyncio.start_unix_server(self._accept, sock=sock, limit=MAX_LINE_BYTES)

    def cluster_stopped(self) -> None:
        """The nodes are down: whoever asked for it may hear so, and whoever watches has seen the end."""
        self._stopped.set()
        self._supervisor.tell_watchers()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._supervisor.directory.control_socket.unlink(missing_ok=True)
        if self._connections:
            # Those who wait for the end of the cluster get their answer; nobody holds us up for long.
            _, late = await asyncio.wait(self._connections, timeout=1.0)
            for connection in late:
                connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            while line := await reader.readline():
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
                if answer.get("watching"):
                    await self._watch(reader, writer)
                    return
        except (ConnectionError, ValueError):
            return  # it hung up, or sent a line longer than any of ours
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise BadRequest("a command must be a JSON object")
            return {"ok": True, **await self._run(request)}
        except ClusterError as error:
            return {"ok": False, "error": error.message, "status": error.status}
        except json.JSONDecodeError as error:
            return {"ok": False, "error": f"the command is not valid JSON: {error}", "status": 2}

    async def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        command = request.get("command")
        if command == "status":
            return self._status()
        if command == "watch":
            return {"watching": True}
        if command == "down":
            self._on_down()
            await self._stopped.wait()
            return {}
        if command == "heal":
            await self._supervisor.heal()
            return {}
        if command not in NODE_COMMANDS:
            raise BadRequest(f"unknown command {command!r}")
        node = request.get("node")
        if not isinstance(node, int) or isinstance(node, bool):
            raise BadRequest(f"{command} needs a node id, not {node!r}")
        await self._run_on_node(command, node, request)
        return {}

    def _status(self) -> dict[str, Any]:
        return {
            "cluster_id": self._supervisor.layout.cluster_id,
            "bootstrap": self._supervisor.bootstrap,
            "ui": None if self._supervisor.page is None else self._supervisor.page.url,
            "nodes": [
                {**status.to_json(), "links": self._supervisor.links(status.id).to_json()}
                for status in self._supervisor.status()
            ],
        }

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        news = asyncio.Event()
        gone = asyncio.create_task(reader.read(1))
        gone.add_done_callback(lambda _: news.set())
        self._supervisor.watchers.add(news)
        try:
            while not gone.done() and not self._stopped.is_set():
                news.clear()
                writer.write(json.dumps(self._status()).encode() + b"\n")
                await writer.drain()
                await news.wait()
        finally:
            self._supervisor.watchers.discard(news)
            gone.cancel()

    async def _run_on_node(self, command: str, node: int, request: dict[str, Any]) -> None:
        supervisor = self._supervisor
        match command:
            case "kill":
                await supervisor.kill(node)
            case "stop":
                await supervisor.stop(node)
            case "start":
                await supervisor.start(node)
            case "pause":
                supervisor.pause(node)
            case "resume":
                supervisor.resume(node)
            case "isolate":
                await supervisor.isolate(node, _node_ids(request.get("from")))
            case "slow":
                await supervisor.slow(node, _milliseconds(request.get("ms")))


def _node_ids(value: Any) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
        raise BadRequest(f"`from` must be a list of node ids, not {value!r}")
    return value


def _milliseconds(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(f"slow needs a number of milliseconds, not {value!r}")
    return value


class NoSupervisor(ClusterError):
    """Nobody listens on the control socket."""


def call(directory: ClusterDir, command: str, **fields: Any) -> dict[str, Any]:
    """Sends one command to the supervisor of `directory` and waits for its answer; blocking, for command lines."""
    try:
        connection = control_socket.connect(directory.control_socket, COMMAND_TIMEOUT_S)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoSupervisor(
            f"no cluster is running in {directory}: `tidelog up` starts one, --data names another directory"
        ) from error
    except OSError as error:
        raise ClusterError(f"cannot reach the cluster in {directory}: {error.strerror or error}") from error
    with connection, connection.makefile("rb") as answers:
        try:
            connection.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
            line = answers.readline(MAX_LINE_BYTES)
        except TimeoutError as error:
            raise ClusterError(f"the supervisor did not answer within {COMMAND_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise ClusterError(f"the connection to the supervisor broke: {error.strerror or error}") from error
    if not line:
        raise ClusterError("the supervisor closed the connection without an answer")
    answer: dict[str, Any] = json.loads(line)
    if not answer.get("ok"):
        raise ClusterError(str(answer.get("error", "no reason given")), status=int(answer.get("status", 1)))
    return answer
