"""`chaos`: faults on a cluster that `up` or `tidelog.testing.Cluster` started."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.local import DEFAULT_DATA
from tidelog.cli.options import Data, Json, Quiet, commands, example
from tidelog.cli.output import bad_usage, report_change
from tidelog.cli.session import cluster_errors

app = commands("Kill, stop, pause, restart, cut off and slow down nodes of a running cluster.")

Node = Annotated[int, typer.Argument(metavar="NODE", help="Id of a node.")]


@app.command(epilog=example("tidelog chaos kill 1 --data ./tidelog-data"))
def kill(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """End a node with SIGKILL: no flush, no goodbye."""
    _ask("kill", node, data, "killed", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos stop 1 --data ./tidelog-data"))
def stop(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Stop a node by a controlled shutdown."""
    _ask("stop", node, data, "stopped", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos start 1 --data ./tidelog-data"))
def start(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Start a node that is down, and wait until it serves."""
    _ask("start", node, data, "started", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos pause 1 --data ./tidelog-data"))
def pause(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Freeze a node (SIGSTOP): its connections stay open and silent."""
    _ask("pause", node, data, "paused", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos resume 1 --data ./tidelog-data"))
def resume(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Let a paused node go on (SIGCONT)."""
    _ask("resume", node, data, "resumed", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos isolate 1 --data ./tidelog-data", "tidelog chaos isolate 1 --from 2,3"))
def isolate(
    node: Node,
    from_nodes: Annotated[
        str, typer.Option("--from", metavar="NODES", help="Only what these nodes send does not arrive (2,3).")
    ] = "",
    data: Data = DEFAULT_DATA,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Cut a node off from the other nodes: bytes stop silently, both ways. Clients still reach it."""
    fields = {"from": _node_ids(from_nodes)} if from_nodes else {}
    done = f"isolated from what nodes {from_nodes} send" if from_nodes else "isolated from all other nodes"
    _ask("isolate", node, data, done, quiet=quiet, as_json=as_json, **fields)


@app.command(epilog=example("tidelog chaos slow 1 --ms 200"))
def slow(
    node: Node,
    ms: Annotated[int, typer.Option("--ms", min=0, max=60_000, help="How much later; 0 ends it.")],
    data: Data = DEFAULT_DATA,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Let what a node says to the other nodes arrive later."""
    _ask("slow", node, data, f"slowed by {ms} ms" if ms else "no longer slowed", quiet=quiet, as_json=as_json, ms=ms)


@app.command(epilog=example("tidelog chaos heal"))
def heal(data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """End every isolate and slow."""
    _call(data, "isolation and slowness ended on all nodes", quiet=quiet, as_json=as_json, command="heal")


def _node_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise bad_usage(f"--from takes node ids as in 2,3, not {text!r}") from None


def _ask(command: str, node: int, data: Path, done: str, *, quiet: bool, as_json: bool, **fields: Any) -> None:
    _call(data, f"node {node} {done}", quiet=quiet, as_json=as_json, command=command, node=node, **fields)


def _call(data: Path, done: str, *, quiet: bool, as_json: bool, command: str, **fields: Any) -> None:
    from tidelog.cluster.control import call
    from tidelog.cluster.layout import ClusterDir

    cluster_errors(lambda: call(ClusterDir(data), command, **fields))
    report_change(done, quiet=quiet, as_json=as_json, command=command, **fields)
