"""A real Apache Kafka node, KRaft in one process: the reference that stories are checked against."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.clients.waiting import wait_until
from tests.interop.jvm import run_tool, start_tool

START_SECONDS = 60
STOP_SECONDS = 30

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; held together so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(sock.getsockname()[1]) for sock in held]
    for sock in held:
        sock.close()
    return ports


class ApacheKafka:
    """One node with its own directory; `with ApacheKafka(tmp) as kafka: kafka.bootstrap`."""

    def __init__(self, directory: Path, config: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._properties = directory / "server.properties"
        broker, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker}"
        settings = {
            **DEFAULTS,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self._data),
            **(config or {}),
        }
        directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen[str] | None = None

    @property
    def log_dir(self) -> Path:
        return self._data

    def start(self, node: int = 1) -> None:
        if not (self._data / "meta.properties").exists():
            done = run_tool("kafka-storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(self._properties))
            if done.status != 0:
                raise RuntimeError(f"cannot format the reference node\n{done}")
        log = self._directory / "server.out"
        self._process = start_tool(
            "kafka-server-start",
            str(self._properties),
            log=log,
            heap_mb=512,
            properties={"tidelog.log.level": "info"},
        )
        process = self._process
        wait_until(
            lambda: "Kafka Server started" in log.read_text() or process.poll() is not None,
            "the reference node has started",
            START_SECONDS,
        )
        if process.poll() is not None:
            self._process = None
            raise RuntimeError(f"the reference node did not start\n{log.read_text()}")

    def stop(self, node: int = 1) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self, node: int = 1) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
