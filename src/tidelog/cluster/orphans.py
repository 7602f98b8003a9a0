"""Nodes without a supervisor: what `--detach` leaves behind when the supervisor itself is killed."""

import os
import signal
import subprocess
from pathlib import Path

from tidelog.cluster.layout import ClusterDir, ClusterLayout
from tidelog.cluster.platform import ON_LINUX
from tidelog.cluster.states import NodeState, NodeStatus


def living_nodes(directory: ClusterDir, layout: ClusterLayout) -> dict[int, int]:
    """Process ids of nodes of this directory that still run, by node id."""
    found: dict[int, int] = {}
    for node in layout.nodes:
        try:
            pid = int(directory.pid_file(node.id).read_text("ascii"))
        except (FileNotFoundError, ValueError):
            # Never started, or ended while it wrote: if it lives after all, its lock refuses a second one.
            continue
        # A process id says little by itself: it may belong to somebody else by now.
        if str(directory.properties(node.id)) in _command_line(pid) or _prints_to(pid, directory.console(node.id)):
            found[node.id] = pid
    return found


def status_without_supervisor(directory: ClusterDir, layout: ClusterLayout) -> list[NodeStatus]:
    living = living_nodes(directory, layout)
    return [
        NodeStatus(
            id=node.id,
            pid=living.get(node.id),
            port=node.port,
            state=(NodeState.RUNNING if node.id in living else NodeState.STOPPED).value,
            roles=node.roles,
        )
        for node in layout.nodes
    ]


def terminate(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # gone already, as was wanted


def _prints_to(pid: int, console: Path) -> bool:
    """A node that was forked has the command line of whoever forked it; its output is its own."""
    try:
        return ON_LINUX and Path(f"/proc/{pid}/fd/1").readlink() == console
    except OSError:
        return False


def _command_line(pid: int) -> str:
    if ON_LINUX:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "surrogateescape")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    listed = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout
