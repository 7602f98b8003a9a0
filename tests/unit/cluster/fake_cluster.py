"""Clusters of fake nodes: the supervisor's whole work without a broker, in milliseconds."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tidelog.client.errors import ConnectionFailed
from tidelog.cluster.layout import NodeLayout
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.readiness import Probe
from tidelog.cluster.supervisor import OnEvent, Supervisor, ignore_events

_FAKE_NODE = Path(__file__).with_name("fake_node.py")


def node_command(properties: Path, *orders: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(_FAKE_NODE), "run", str(properties), *orders]


def format_command(properties: Sequence[Path], cluster_id: str, controllers: Sequence[str], *orders: str) -> list[str]:
    files = [str(path) for path in properties]
    given = [f"cluster={cluster_id}", f"voters={','.join(controllers)}", *orders]
    return [sys.executable, "-I", "-S", str(_FAKE_NODE), "format", *files, *given]


async def accepting(nodes: Sequence[NodeLayout]) -> None:
    """Ready is who accepts a connection: a fake node has no more to say."""
    for node in nodes:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", node.port)
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        writer.close()


def request(data: Path, *, orders: Sequence[str] = (), **changes: Any) -> ClusterRequest:
    """`orders` are what `fake_node` takes."""
    fields: dict[str, Any] = {
        "data": data,
        "brokers": 1,
        "free_ports": True,
        "node_command": lambda properties: node_command(properties, *orders),
        "format_command": lambda *formatted: format_command(*formatted, *orders),
        **changes,
    }
    return ClusterRequest(**fields)


@asynccontextmanager
async def running(
    data: Path, *, on_event: OnEvent = ignore_events, probe: Probe = accepting, **changes: Any
) -> AsyncIterator[Supervisor]:
    """A started cluster of fake nodes, all gone at the end."""
    supervisor = await Supervisor.create(request(data, **changes), on_event=on_event, probe=probe)
    try:
        await supervisor.start_all()
        yield supervisor
    finally:
        await supervisor.kill_all()
        await supervisor.close()
