"""A standalone Spark cluster of real processes on loopback, whose workers run a Python that has nothing of ours."""

import os
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from tests.clients.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
# What Spark asks of a Python that it runs; all else comes with the job.
EXPOSED = ("pyspark", "py4j", "pyarrow")


def bare_python(folder: Path) -> Path:
    """A virtual environment with no packages but those."""
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in EXPOSED:
        (packages / name).symlink_to(SPARK_HOME.parent / name)
    return folder / "bin" / "python"


@dataclass
class Standalone:
    url: str
    python: Path
    folder: Path
    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def driver_environment(self) -> dict[str, str]:
        """Of a command that is told this master."""
        return {
            **os.environ,
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def run(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """A command of ours on this cluster, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "tidelog", *arguments, "--master", self.url],
            env=self.driver_environment(),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def executors(self) -> list[int]:
        """JVMs with tasks in them: children of the workers."""
        found = []
        for worker in self.workers:
            children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
            threads = Path(f"/proc/{worker.pid}/task").iterdir() if children.exists() else ()
            for thread in threads:
                try:
                    found += [int(pid) for pid in (thread / "children").read_text().split()]
                except OSError:
                    # A thread that has ended since.
                    continue
        return sorted(found)

    def kill_executor(self) -> int:
        pid = self.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A master and two workers with one core each; ended by their ids, executors with them."""
    python = bare_python(folder / "python")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": str(python),
    } | {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    missing = subprocess.run(
        [str(python), "-c", "import tidelog"], env=environment, cwd=folder, check=False, capture_output=True, text=True
    )
    assert "No module named 'tidelog'" in missing.stderr
    port = free_port()
    made = Standalone(f"spark://127.0.0.1:{port}", python, folder, environment)
    with ExitStack() as stack:
        host = ("--host", "127.0.0.1", "--webui-port", "0")
        stack.enter_context(_daemon(made, "master.Master", *host, "--port", str(port)))
        wait_until(lambda: listens(port), "a Spark master", 60)
        for number in (1, 2):
            work = ("--work-dir", str(folder / f"work-{number}"), "--cores", "1", "--memory", "1g")
            made.workers.append(stack.enter_context(_daemon(made, "worker.Worker", *host, *work, made.url)))
        yield made


@contextmanager
def _daemon(cluster: Standalone, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (cluster.folder / f"spark-{name}.log").open("ab") as log:
        daemon = subprocess.Popen(command, env=cluster.environment, cwd=cluster.folder, stdout=log, stderr=log)
        try:
            yield daemon
        finally:
            # A worker ends its executors as it goes.
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Driver:
    """`tidelog pipeline run`, as a process of its own."""

    def __init__(self, cluster: Standalone, file: Path, bootstrap: str, *more: str) -> None:
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file)]
        self._log = (cluster.folder / "driver.log").open("ab")
        self.process = subprocess.Popen(
            [*command, "--master", cluster.url, "--bootstrap", bootstrap, *more],
            env=cluster.driver_environment(),
            stdout=self._log,
            stderr=self._log,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, patience_s: float) -> int:
        """As ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(patience_s)
