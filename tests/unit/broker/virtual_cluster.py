"""Several whole nodes on virtual time, for tests: real servers, real logs, a network and disks in memory.

async def story(cluster: SimCluster) -> None:
    client = await connect(cluster, 1)
    await client.create_topic("orders")
    cluster.kill(1)
    ...
    await cluster.start(1)

on_virtual_cluster(story, brokers=3, seed=7, properties={"min.insync.replicas": "2"})
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tests.unit.broker.virtual_node import VirtualClient

from tidelog.sim.cluster import CLIENT_PORT, LAN, DrawPace, SimCluster, fast, host_of
from tidelog.sim.links import Delay


async def connect(cluster: SimCluster, node_id: int, port: int = CLIENT_PORT) -> VirtualClient:
    """One connection to one node, from a machine of its own (127.0.0.1 is where the test runs)."""
    return VirtualClient(*await asyncio.open_connection(host_of(node_id), port))


def on_virtual_cluster(
    story: Callable[[SimCluster], Awaitable[None]],
    *,
    brokers: int = 3,
    controllers: int = 0,
    seed: int = 7,
    properties: Mapping[str, str] | None = None,
    roles: Mapping[int, str] | None = None,
    delay: Delay | None = LAN,
    pace: DrawPace = fast,
    started: bool = True,
    timeout_s: float = 600.0,
) -> None:
    """Tells a story of a cluster in at most `timeout_s` of virtual time. All nodes serve when it begins, or none if
    `started` is False. What no code of a node caught fails the test.
    """
    with SimCluster(
        brokers, controllers=controllers, seed=seed, properties=properties, roles=roles, delay=delay, pace=pace
    ) as cluster:

        async def whole() -> None:
            async with asyncio.timeout(timeout_s):
                if started:
                    await cluster.start_all()
                await story(cluster)

        cluster.run(whole())
        assert cluster.unhandled() == []
