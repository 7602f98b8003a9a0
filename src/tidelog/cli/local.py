"""`up`, `down`, `status`: a cluster on this machine."""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import Data, Json, Quiet, Settings, example, key_values
from tidelog.cli.output import CommandFailed, bad_usage, note, note_if_slow, report_change, table
from tidelog.cli.session import cluster_errors, run_async, run_until_told
from tidelog.cli.watching import DEFAULT_INTERVAL_S, Interval, View, Watch, show_looks

if TYPE_CHECKING:
    from tidelog.cluster.run import Ready
    from tidelog.cluster.supervisor import NodeEvent

DEFAULT_DATA: Final = Path("tidelog-data")
DEFAULT_UI_PORT: Final = 8080
# `tidelog health` then has something to read. `--set` changes it at the start, `tidelog configs alter` later.
_SETTINGS: Final = {"tidelog.replication.events.enable": "true"}


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog up --port 9092 --data ./tidelog-data", "tidelog up --detach"))(up)
    app.command(epilog=example("tidelog down --data ./tidelog-data"))(down)
    app.command(epilog=example("tidelog status --data ./tidelog-data --json", "tidelog status --watch"))(status)


def up(
    brokers: Annotated[
        int | None, typer.Option("--brokers", help="Number of brokers; nodes 1 to 3 are also controllers. [default: 3]")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port of node 1; node i listens on port+i-1. [default: 9092]")
    ] = None,
    data: Data = DEFAULT_DATA,
    ui_port: Annotated[
        int | None,
        typer.Option("--ui-port", help="Port of the live page; 0 turns it off. [default: 8080, or a free port]"),
    ] = None,
    settings: Settings = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the cluster is ready; `tidelog down` stops it.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Start a cluster on this machine, with one process per node.

    When every broker serves, it prints `ready`, the bootstrap servers, and the addresses of the page and the metrics.
    With --json, they are an object on one line. To stop the cluster, press ctrl-C. With the same directory, the next
    start continues with the same data.
    """
    from tidelog.cluster.detach import start_detached
    from tidelog.cluster.plan import ClusterRequest
    from tidelog.cluster.run import run_cluster
    from tidelog.cluster.states import NodeState

    if ui_port is not None and not 0 <= ui_port <= 65535:
        raise bad_usage(f"--ui-port is a number from 0 to 65535, not {ui_port}")
    request = ClusterRequest(
        data=data,
        brokers=brokers,
        port=port,
        settings=_SETTINGS | key_values(settings, "--set"),
        ui_port=DEFAULT_UI_PORT if ui_port is None else ui_port,
        ui_port_may_move=ui_port is None,
    )

    def tell(ready: "Ready") -> None:
        if quiet and not as_json:
            return
        print(json.dumps(asdict(ready)) if as_json else ready.line(), flush=True)
        if ui_port is None and not str(ready.ui).startswith(f"http://127.0.0.1:{DEFAULT_UI_PORT}/"):
            note(f"port {DEFAULT_UI_PORT} is in use: the page is at {ready.ui}")

    if detach:
        with note_if_slow("starting the cluster"):
            ready = cluster_errors(lambda: start_detached(request))
        tell(ready)
        return

    waiting = ExitStack()

    def on_ready(ready: "Ready") -> None:
        waiting.close()
        tell(ready)
        if not quiet:
            note("ctrl-C stops it")

    def on_event(event: "NodeEvent") -> None:
        if event.detail:
            print(f"tidelog: {event.detail}", file=sys.stderr)
            print(f"tidelog: `tidelog chaos start {event.node_id} --data {data}` starts it again", file=sys.stderr)
        elif event.state is NodeState.STOPPING and not quiet:
            note(f"stopping node {event.node_id}")

    with waiting:
        waiting.enter_context(note_if_slow("starting the cluster"))
        cluster_errors(lambda: run_async(run_cluster(request, on_ready=on_ready, on_event=on_event)))


def down(data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Stop a cluster: every node with a controlled shutdown."""
    from tidelog.cluster.detach import stop_cluster
    from tidelog.cluster.layout import ClusterDir

    with note_if_slow("stopping the nodes"):
        stopped = cluster_errors(lambda: stop_cluster(ClusterDir(data)))
    if not stopped:
        raise CommandFailed(f"no cluster is running in {data}: --data names another directory")
    report_change(f"cluster in {data} stopped", quiet=quiet, as_json=as_json, data=str(data), stopped=True)


def status(
    data: Data = DEFAULT_DATA, watch: Watch = False, interval: Interval = DEFAULT_INTERVAL_S, as_json: Json = False
) -> None:
    """Show the nodes of a cluster with process id, port, state and roles, and the active controller."""
    import asyncio

    from tidelog.cluster.detach import cluster_status
    from tidelog.cluster.layout import ClusterDir

    async def look() -> dict[str, Any]:
        return await asyncio.to_thread(cluster_status, ClusterDir(data))

    view = View(to_json=dict, to_text=_status_text)
    looks = show_looks(look, view, as_json=as_json, watch=watch, interval_s=interval)
    cluster_errors(lambda: run_until_told(looks))


def _status_text(found: dict[str, Any]) -> str:
    nodes = found["nodes"]
    headings = ["NODE", "PID", "PORT", "STATE", "ROLES"]
    rows = [[node["id"], node["pid"], node["port"], node["state"], ",".join(node["roles"])] for node in nodes]
    faults = [_faults(node.get("links")) for node in nodes]
    if any(faults):
        headings.append("NETWORK")
        rows = [[*row, words] for row, words in zip(rows, faults, strict=True)]
    lines = [table(headings, rows)]
    controller = found["controller"]
    if controller is not None:
        lines.append(f"active controller: node {controller['id']}, epoch {controller['epoch']}")
    elif any(node["state"] == "running" for node in nodes):
        lines.append("active controller: unknown")
    if found.get("ui"):
        lines.append(f"live page: {found['ui']}")
    if not found["supervised"] and any(node["pid"] for node in nodes):
        lines.append("the supervisor of these nodes has ended; `tidelog down` stops them")
    return "\n".join(lines)


def _faults(links: dict[str, Any] | None) -> str:
    """Network faults that `chaos` injected at a node; unknown without a supervisor."""
    if links is None:
        return ""
    deaf, mute = (",".join(map(str, links[key])) for key in ("deaf", "mute"))
    words = []
    if deaf and deaf == mute:
        words.append(f"isolated from {deaf}")
    else:
        words += [f"receives nothing from {deaf}"] if deaf else []
        words += [f"sends nothing to {mute}"] if mute else []
    if links["delay_ms"]:
        words.append(f"sends {links['delay_ms']} ms late")
    return "; ".join(words)
