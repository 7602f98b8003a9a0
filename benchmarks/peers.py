"""Three brokers of Tidelog, three of Apache Kafka: what the first screen's benchmark starts, measures and kills."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from tests.interop.jvm import run_tool, start_tool

from benchmarks.processes import descendants, free_ports
from tidelog.cluster.control import call
from tidelog.cluster.layout import ClusterDir

NODES: Final = (1, 2, 3)
STOP_S: Final = 30.0
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
# What kafka-server-start.sh and kafka-run-class.sh pass to Java.
KAFKA_HEAP_MB: Final = 1024
KAFKA_JVM: Final = (
    "-server",
    f"-Xms{KAFKA_HEAP_MB}m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


class Peer(Protocol):
    """A cluster of three brokers with replicated topics."""

    name: str

    @property
    def bootstrap(self) -> str: ...

    def prepare(self, directory: Path) -> None:
        """Everything that comes before the clock starts."""

    def launch(self) -> None:
        """Starts the processes and returns at once."""

    def pids(self) -> list[int]:
        """All processes of the cluster."""

    def kill(self, broker: int) -> None:
        """SIGKILL for one broker; returns when its process has ended."""

    def stop(self) -> None: ...


class TidelogUp:
    """`tidelog up`, with the page off."""

    name = "Tidelog"

    def __init__(self) -> None:
        self._port = 0
        self._data = Path()
        self._up: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._port + number}" for number in range(len(NODES)))

    def prepare(self, directory: Path) -> None:
        self._data = directory / "data"
        self._port = free_ports(len(NODES))

    def launch(self) -> None:
        command = [sys.executable, "-m", "tidelog", "up", "--brokers", str(len(NODES)), "--data", str(self._data)]
        self._up = subprocess.Popen(
            [*command, "--port", str(self._port), "--ui-port", "0"],
            stdout=subprocess.DEVNULL,
            # Python keeps compiled code, as in an installed Tidelog. Without it a node takes twice as long to start.
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
        )

    def pids(self) -> list[int]:
        assert self._up is not None
        return descendants(self._up.pid)

    def kill(self, broker: int) -> None:
        call(ClusterDir(self._data), "kill", node=broker)

    def stop(self) -> None:
        if self._up is not None:
            self._up.terminate()
            self._up.wait(STOP_S)
            self._up = None


class KafkaBrokers:
    """Apache Kafka: three KRaft nodes, each a broker and a controller, with Kafka's own JVM options."""

    name = "Apache Kafka"

    def __init__(self) -> None:
        self._directory = Path()
        self._port = 0
        self._processes: dict[int, subprocess.Popen[str]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._port + number}" for number in range(len(NODES)))

    def prepare(self, directory: Path) -> None:
        """Formatting is not measured: its JVM runs once in the life of a cluster."""
        self._directory = directory
        self._port = free_ports(2 * len(NODES))
        voters = ",".join(f"{node}@127.0.0.1:{self._controller_port(node)}" for node in NODES)
        for node in NODES:
            settings = {
                "process.roles": "broker,controller",
                "node.id": str(node),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listeners": f"PLAINTEXT://127.0.0.1:{self._port + node - 1},"
                f"CONTROLLER://127.0.0.1:{self._controller_port(node)}",
                "log.dirs": str(directory / f"data-{node}"),
            }
            self._properties(node).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            done = run_tool("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(self._properties(node)))
            if done.status != 0:
                raise RuntimeError(f"cannot format node {node} of Apache Kafka\n{done}")

    def launch(self) -> None:
        for node in NODES:
            self._processes[node] = start_tool(
                "kafka-server-start",
                str(self._properties(node)),
                log=self._directory / f"node-{node}.out",
                heap_mb=KAFKA_HEAP_MB,
                jvm=KAFKA_JVM,
            )

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values() if process.poll() is None]

    def kill(self, broker: int) -> None:
        self._processes[broker].send_signal(signal.SIGKILL)
        self._processes[broker].wait()

    def stop(self) -> None:
        with ExitStack() as stopping:
            for process in self._processes.values():
                stopping.callback(process.wait)
                stopping.callback(process.kill)
        self._processes.clear()

    def _controller_port(self, node: int) -> int:
        return self._port + len(NODES) + node - 1

    def _properties(self, node: int) -> Path:
        return self._directory / f"server-{node}.properties"
