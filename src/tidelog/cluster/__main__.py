"""The supervisor behind `tidelog up --detach`: tells on its standard output how the start went, then lives on."""

import argparse
import asyncio
import json
import logging
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.properties import parse_settings
from tidelog.cluster.run import Ready, run_cluster
from tidelog.cluster.supervisor import NodeEvent

log = logging.getLogger("tidelog.cluster")


def main() -> int:
    request = _parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(run_cluster(request, on_ready=partial(_on_ready, request), on_event=_on_event))
    except ClusterError as error:
        log.error("%s", error.message)
        _tell({"error": error.message, "status": error.status})
        return error.status
    return 0


def _parse() -> ClusterRequest:
    parser = argparse.ArgumentParser(prog="python -m tidelog.cluster", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--brokers", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--ui-port", type=int, default=0)
    parser.add_argument("--ui-port-may-move", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    return ClusterRequest(
        data=arguments.data,
        brokers=arguments.brokers,
        port=arguments.port,
        settings=parse_settings(arguments.settings),
        ui_port=arguments.ui_port,
        ui_port_may_move=arguments.ui_port_may_move,
        # Detached nodes outlive even us; `status` and `down` find them by their process ids.
        dies_with_us=False,
    )


def _on_ready(request: ClusterRequest, ready: Ready) -> None:
    _tell({"ready": asdict(ready)})
    # Whoever started us goes away now, and the pipes to it with it.
    log_fd = os.open(ClusterDir(request.data).supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    log.info("%s", ready.line())


def _on_event(event: NodeEvent) -> None:
    if event.detail:
        log.error("node %d is %s: %s", event.node_id, event.state.value, event.detail)
    else:
        log.info("node %d is %s", event.node_id, event.state.value)


def _tell(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
