"""`chaos`: faults on a cluster that `up` or `tidelog.testing.Cluster` started."""

from typing import Annotated, Any

import typer

from tidelog.cli.local import DEFAULT_DATA
from tidelog.cli.options import Data, example
from tidelog.cli.output import note
from tidelog.cli.session import cluster_errors

app = typer.Typer(
    help="Kill, stop, pause, restart, cut off and slow down nodes of a running cluster.", no_args_is_help=True
)

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


@app.command(epilog=example("tidelog chaos isolate 1 --data ./tidelog-data", "tidelog chaos isolate 1 --from 2,3"))
def isolate(
    node: Node,
    from_nodes: Annotated[
        str, typer.Option("--from", metavar="NODES", help="Only what these nodes send does not arrive (2,3).")
    ] = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Cut a node off from the other nodes: bytes stop silently, both ways. Clients still reach it."""
    fields = {"from": _node_ids(from_nodes)} if from_nodes else {}
    _ask("isolate", node, data, f"hears nothing of nodes {from_nodes}" if from_nodes else "is cut off", **fields)


@app.command(epilog=example("tidelog chaos slow 1 --ms 200"))
def slow(
    node: Node,
    ms: Annotated[int, typer.Option("--ms", min=0, max=60_000, help="How much later; 0 ends it.")],
    data: Data = DEFAULT_DATA,
) -> None:
    """Let what a node says to the other nodes arrive later."""
    _ask("slow", node, data, f"is {ms} ms late", ms=ms)


@app.command(epilog=example("tidelog chaos heal"))
def heal(data: Data = DEFAULT_DATA) -> None:
    """End every isolate and slow."""
    from tidelog.cluster.control import call
    from tidelog.cluster.layout import ClusterDir

    cluster_errors(lambda: call(ClusterDir(data), "heal"))
    note("all nodes hear each other")


def _node_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"node ids are numbers with commas between them, not {text!r}") from None


def _ask(command: str, node: int, data: Data, done: str, **fields: Any) -> None:
    from tidelog.cluster.control import call
    from tidelog.cluster.layout import ClusterDir

    cluster_errors(lambda: call(ClusterDir(data), command, node=node, **fields))
    note(f"node {node} {done}")
