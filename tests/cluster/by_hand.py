"""A cluster as docs/operating.md describes it: server.properties written by hand, `tidelog format`, `tidelog node`."""

import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.cluster.commands import TIMEOUT_S

from tidelog.broker.__main__ import main as broker_main


class HandMade:
    """Nodes by id, each a process of its own below `directory`. All on loopback, ports chosen by the caller."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def write(self, node: int, text: str) -> None:
        """Its server.properties; what every node needs besides is added."""
        path = self._config(node)
        path.parent.mkdir(parents=True, exist_ok=True)
        own = f"node.id={node}\nlog.dirs={path.parent / 'data'}\ncontroller.listener.names=CONTROLLER\n"
        path.write_text(own + text)

    def format(self, node: int, *options: str) -> None:
        """What `tidelog format` becomes; in this process, for the sake of speed."""
        arguments = ["format", "--config", str(self._config(node)), f"--cluster-id={self._cluster_id}", *options]
        with redirect_stdout(StringIO()) as told:
            assert broker_main(arguments) == 0
        assert told.getvalue().startswith(f"node {node} formatted for cluster {self._cluster_id}: ")

    def start(self, node: int) -> None:
        """Begins to start; `wait_started` waits."""
        with (self._config(node).parent / "stderr").open("a") as errors:
            self._processes[node] = subprocess.Popen(
                [sys.executable, "-m", "tidelog", "node", "--config", str(self._config(node))],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wait_started(self, *nodes: int) -> None:
        for node in nodes:
            out = self._processes[node].stdout
            assert out is not None
            assert select.select([out], [], [], TIMEOUT_S)[0], f"node {node} says nothing\n{self.told(node)}"
            line = out.readline()
            assert line.startswith(f"started node.id={node} "), self.told(node)

    def kill(self, node: int) -> None:
        self._processes[node].kill()
        self._end(node)

    def stop(self, node: int) -> None:
        """An orderly stop, or it is a failure."""
        self._processes[node].send_signal(signal.SIGTERM)
        assert self._end(node) == 0, self.told(node)

    def told(self, node: int) -> str:
        return (self._config(node).parent / "stderr").read_text()

    def end(self) -> None:
        for node in list(self._processes):
            self.kill(node)

    def _end(self, node: int) -> int:
        process = self._processes.pop(node)
        status = process.wait(TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        return status

    def _config(self, node: int) -> Path:
        return self._directory / f"node-{node}" / "server.properties"


@contextmanager
def hand_made(directory: Path, cluster_id: str) -> Iterator[HandMade]:
    made = HandMade(directory, cluster_id)
    try:
        yield made
    finally:
        made.end()
