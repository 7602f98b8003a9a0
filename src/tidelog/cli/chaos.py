"""`chaos`: faults on a cluster that `up` or `tidelog.testing.Cluster` started."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.local import DEFAULT_DATA
from tidelog.cli.options import Data, Json, Quiet, commands, example
from tidelog.cli.output import bad_usage, report_change
from tidelog.cli.session import cluster_errors

app = commands(
    "Inject faults into a running cluster: kill, stop, pause, isolate or slow down nodes.",
    "tidelog chaos kill 1",
    "tidelog chaos isolate 2 --from 1,3",
    "tidelog chaos heal",
)

Node = Annotated[int, typer.Argument(metavar="NODE", help="Id of the node; see `tidelog status`.")]


@app.command(epilog=example("tidelog chaos kill 1 --data ./tidelog-data"))
def kill(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Kill a node with SIGKILL, without a flush or a controlled shutdown."""
    _ask("kill", node, data, "killed", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos stop 1 --data ./tidelog-data"))
def stop(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Stop a node with a controlled shutdown."""
    _ask("stop", node, data, "stopped", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos start 1 --data ./tidelog-data"))
def start(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Start a killed or stopped node, and wait until it serves clients."""
    _ask("start", node, data, "started", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos pause 1 --data ./tidelog-data"))
def pause(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Pause a node with SIGSTOP. Its connections stay open, but it does not answer."""
    _ask("pause", node, data, "paused", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos resume 1 --data ./tidelog-data"))
def resume(node: Node, data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """Resume a paused node with SIGCONT."""
    _ask("resume", node, data, "resumed", quiet=quiet, as_json=as_json)


@app.command(epilog=example("tidelog chaos isolate 1 --data ./tidelog-data", "tidelog chaos isolate 1 --from 2,3"))
def isolate(
    node: Node,
    from_nodes: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NODES",
            help="Drop only the bytes from these nodes to NODE, such as 2,3. [default: both ways, all nodes]",
        ),
    ] = "",
    data: Data = DEFAULT_DATA,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Cut a node off from the other nodes. Bytes are dropped silently; clients still reach the node."""
    fields = {"from": _node_ids(from_nodes)} if from_nodes else {}
    done = f"isolated from what nodes {from_nodes} send" if from_nodes else "isolated from all other nodes"
    _ask("isolate", node, data, done, quiet=quiet, as_json=as_json, **fields)


@app.command(epilog=example("tidelog chaos slow 1 --ms 200"))
def slow(
    node: Node,
    ms: Annotated[int, typer.Option("--ms", min=0, max=60_000, help="Delay in milliseconds; 0 ends it.")],
    data: Data = DEFAULT_DATA,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Delay everything that a node sends to the other nodes."""
    _ask("slow", node, data, f"slowed by {ms} ms" if ms else "no longer slowed", quiet=quiet, as_json=as_json, ms=ms)


@app.command(epilog=example("tidelog chaos heal"))
def heal(data: Data = DEFAULT_DATA, quiet: Quiet = False, as_json: Json = False) -> None:
    """End every `isolate` and `slow` in the cluster."""
    _call(data, "isolation and slowness ended on all nodes", quiet=quiet, as_json=as_json, command="heal")


def _node_ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise bad_usage(f"--from needs node ids as in 2,3, not {text!r}") from None


def _ask(command: str, node: int, data: Path, done: str, *, quiet: bool, as_json: bool, **fields: Any) -> None:
    _call(data, f"node {node} {done}", quiet=quiet, as_json=as_json, command=command, node=node, **fields)


def _call(data: Path, done: str, *, quiet: bool, as_json: bool, command: str, **fields: Any) -> None:
    from tidelog.cluster.control import call
    from tidelog.cluster.layout import ClusterDir

    cluster_errors(lambda: call(ClusterDir(data), command, **fields))
    report_change(done, quiet=quiet, as_json=as_json, command=command, **fields)
