"""Starting a supervisor that lives on after us, and stopping what it left when it is gone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any, Final

from tidelog.cluster.control import NoSupervisor, call
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir, ClusterLayout
from tidelog.cluster.node import STOP_TIMEOUT_S
from tidelog.cluster.orphans import living_nodes, status_without_supervisor, terminate
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.quorum_view import active_controller
from tidelog.cluster.run import Ready
from tidelog.cluster.states import NodeState

_POLL_S: Final = 0.05


def start_detached(request: ClusterRequest) -> Ready:
    """Starts a background supervisor and returns once its cluster serves; its failure to start is ours."""
    command = [sys.executable, "-m", "tidelog.cluster", "--data", str(request.data)]
    if request.brokers is not None:
        command += ["--brokers", str(request.brokers)]
    if request.port is not None:
        command += ["--port", str(request.port)]
    if request.ui_port:
        command += ["--ui-port", str(request.ui_port)]
    if request.ui_port_may_move:
        command.append("--ui-port-may-move")
    for key, value in request.settings.items():
        command += ["--set", f"{key}={value}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ.copy(),
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if not line:
        words = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        process.wait()
        raise ClusterError(f"the supervisor did not start: {words[-1] if words else 'no reason given'}")
    # Not waited for: it lives on. Its pipes are closed here and replaced by a file there.
    process.stdout.close()
    process.stderr.close()
    answer = json.loads(line)
    if "error" in answer:
        process.wait()
        raise ClusterError(answer["error"], status=answer["status"])
    return Ready(**answer["ready"])


def stop_cluster(directory: ClusterDir) -> bool:
    """Stops the cluster in `directory` in order; False when nothing ran there."""
    layout = directory.load()
    if layout is None:
        raise ClusterError(
            f"there is no cluster in {directory}: `tidelog up` creates one, --data names another directory"
        )
    try:
        call(directory, "down")
    except NoSupervisor:
        return _stop_orphans(directory, layout)
    return True


def _stop_orphans(directory: ClusterDir, layout: ClusterLayout) -> bool:
    living = living_nodes(directory, layout)
    for pid in living.values():
        terminate(pid, signal.SIGTERM)
        terminate(pid, signal.SIGCONT)
    waited_s = 0.0
    while remaining := living_nodes(directory, layout):
        if waited_s >= STOP_TIMEOUT_S:
            for pid in remaining.values():
                terminate(pid, signal.SIGKILL)
            raise ClusterError(f"{len(remaining)} nodes did not stop within {STOP_TIMEOUT_S:g} s, so they were killed")
        time.sleep(_POLL_S)
        waited_s += _POLL_S
    for node in layout.nodes:
        directory.pid_file(node.id).unlink(missing_ok=True)
    return bool(living)


def cluster_status(directory: ClusterDir) -> dict[str, Any]:
    """The nodes as their supervisor sees them or, without one, as far as their processes tell; and who is the active
    controller, as the nodes say.
    """
    layout = directory.load()
    if layout is None:
        raise ClusterError(
            f"there is no cluster in {directory}: `tidelog up` creates one, --data names another directory"
        )
    try:
        found = {**call(directory, "status"), "supervised": True}
        del found["ok"]
    except NoSupervisor:
        found = {
            "cluster_id": layout.cluster_id,
            "bootstrap": layout.bootstrap,
            "supervised": False,
            "nodes": [node.to_json() for node in status_without_supervisor(directory, layout)],
        }
    running = [node["port"] for node in found["nodes"] if node["state"] == NodeState.RUNNING.value]
    controller = asyncio.run(active_controller(running))
    return {**found, "controller": None if controller is None else asdict(controller)}
