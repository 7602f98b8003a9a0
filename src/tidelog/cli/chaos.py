"""`chaos`: faults on a cluster that `up` or `tidelog.testing.Cluster` started."""

from typing import Annotated

import typer

from tidelog.cli.local import DEFAULT_DATA
from tidelog.cli.options import Data, example
from tidelog.cli.output import note
from tidelog.cli.session import cluster_errors

app = typer.Typer(help="Kill, stop, pause and restart nodes of a running cluster.", no_args_is_help=True)

Node = Annotated[int, typer.Argument(metavar="NODE", help="Id of a node.")]


@app.command(epilog=example("tidelog chaos kill 1 --data ./tidelog-data"))
def kill(node: Node, data: Data = DEFAULT_DATA) -> None:
    """End a node with SIGKILL: no flush, no goodbye."""
    _ask("kill", node, data, "killed")


@app.command(epilog=example("tidelog chaos stop 1 --data ./tidelog-data"))
def stop(node: Node, data: Data = DEFAULT_DATA) -> None:
    """Stop a node by a controlled shutdown."""
    _ask("stop", node, data, "stopped")


@app.command(epilog=example("tidelog chaos start 1 --data ./tidelog-data"))
def start(node: Node, data: Data = DEFAULT_DATA) -> None:
    """Start a node that is down, and wait until it serves."""
    _ask("start", node, data, "started")


@app.command(epilog=example("tidelog chaos pause 1 --data ./tidelog-data"))
def pause(node: Node, data: Data = DEFAULT_DATA) -> None:
    """Freeze a node (SIGSTOP): its connections stay open and silent."""
    _ask("pause", node, data, "paused")


@app.command(epilog=example("tidelog chaos resume 1 --data ./tidelog-data"))
def resume(node: Node, data: Data = DEFAULT_DATA) -> None:
    """Let a paused node go on (SIGCONT)."""
    _ask("resume", node, data, "resumed")


def _ask(command: str, node: int, data: Data, done: str) -> None:
    from tidelog.cluster.control import call
    from tidelog.cluster.layout import ClusterDir

    cluster_errors(lambda: call(ClusterDir(data), command, node=node))
    note(f"node {node} {done}")
