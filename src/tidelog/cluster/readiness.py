"""Ready means what a client would find: every broker unfenced, and a topic can be created.

Asked over the wire, as a client would, never read from a log line: a line tells what a node believes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from tidelog.client.addresses import Address
from tidelog.client.client import Client, one_line
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.topics import create_topic
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import NodeLayout
from tidelog.wire.errors import ApiError

# A node with ten thousand logs to recover is busy for a while; one that ended is noticed at once.
READY_TIMEOUT_S: Final = 120.0
_PROBE_TOPIC: Final = "tidelog-readiness-probe"
# After every node reported that it serves: metadata reaches the other brokers within milliseconds.
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.05
# Before that, for a node that cannot report.
_UNREPORTED_PAUSE_S: Final = 0.25
_PROBE_SETTINGS: Final = ConnectionSettings(
    client_id="tidelog-supervisor", connect_timeout_s=2.0, request_timeout_s=5.0
)


class Probe(Protocol):
    """Looks once whether these nodes serve as one cluster; raises what is still missing."""

    async def __call__(self, nodes: Sequence[NodeLayout]) -> None: ...


async def probe_cluster(nodes: Sequence[NodeLayout]) -> None:
    """Each node is asked itself: that one broker knows of another does not say that the other answers."""
    wanted = frozenset(node.id for node in nodes)
    found = await asyncio.gather(*(_probe_node(node, wanted) for node in nodes), return_exceptions=True)
    for failure in found:
        if failure is not None:
            raise failure


async def _probe_node(node: NodeLayout, wanted: frozenset[int]) -> None:
    async with Client([Address("127.0.0.1", node.port)], settings=_PROBE_SETTINGS, retry_timeout_s=0) as client:
        await client.refresh([])
        missing = sorted(wanted - set(client.metadata.brokers))
        if missing:
            raise ClientError(f"node {node.id} does not know broker {missing[0]} as unfenced yet")
        if node.id == max(wanted):
            # Only validated: finds out whether the controller decides and placement has its brokers.
            await create_topic(
                client, _PROBE_TOPIC, partitions=1, replication_factor=min(3, len(wanted)), validate_only=True
            )


async def wait_ready(
    nodes: Sequence[NodeLayout],
    *,
    still_alive: Callable[[], None],
    all_may_serve: Callable[[], Awaitable[None]],
    probe: Probe = probe_cluster,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Probes until the nodes are ready; `still_alive` raises when one has ended.

    `all_may_serve` returns when every node reported that it serves, or ended. Until then a probe can only tell what is
    missing, so there are few of them; after it, the brokers only have to learn of each other.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    reported = asyncio.ensure_future(all_may_serve())
    pause_s = _FIRST_PAUSE_S
    try:
        while True:
            await asyncio.wait((reported,), timeout=min(_UNREPORTED_PAUSE_S, deadline - loop.time()))
            still_alive()
            try:
                async with asyncio.timeout_at(deadline):
                    await probe(nodes)
                return
            except (ClientError, ApiError, TimeoutError) as error:
                if loop.time() + pause_s > deadline:
                    reason = one_line(error) if not isinstance(error, TimeoutError) else "no answer"
                    raise ClusterError(f"the cluster was not ready within {timeout_s:g} s: {reason}") from error
            if reported.done():
                await asyncio.sleep(pause_s)
                pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
    finally:
        reported.cancel()
