"""Processes of a broker that follow each other: how soon the next one serves, and what becomes of the one before."""

import asyncio
import errno
from uuid import UUID

import pytest
from tests.unit.broker.test_several_nodes import active_controllers, create, fenced, knows
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster

from tidelog.metadata.features import SUPPORTED_FEATURES
from tidelog.sim.cluster import CONTROLLER_PORT, SimCluster
from tidelog.sim.disk_faults import Trap
from tidelog.sim.machine import NotRunning, State
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener


def another(cluster: SimCluster, controller: int) -> int:
    return next(node_id for node_id in cluster.nodes if node_id != controller)


@pytest.mark.rule("C2")
@pytest.mark.parametrize("away_s", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("brokers", [2, 3, 4])
@pytest.mark.parametrize("leads", [True, False], ids=["the controller", "another"])
def test_a_broker_that_was_killed_does_not_wait_for_the_session_of_its_dead_process(
    leads: bool, brokers: int, away_s: float
) -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        killed = controller if leads else another(cluster, controller)
        cluster.kill(killed)
        await asyncio.sleep(away_s)
        before = cluster.loop.time()
        await cluster.start(killed)
        assert cluster.loop.time() - before < 1.0

    on_virtual_cluster(story, brokers=brokers)


@pytest.mark.rule("C2", "Q1")
def test_a_cluster_that_lost_power_as_a_whole_is_back_at_once() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1)
        assert await create(client, "kept") is ErrorCode.NONE
        for node_id in cluster.nodes:
            cluster.power_cut(node_id)
        before = cluster.loop.time()
        await cluster.start_all()
        assert cluster.loop.time() - before < 1.0
        assert all(knows(cluster, node_id, "kept") for node_id in cluster.nodes)

    on_virtual_cluster(story)


@pytest.mark.rule("C10")
@pytest.mark.parametrize("skip", range(5))
@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_whose_metadata_log_fails_while_it_joins_says_so_and_ends(skip: int, seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        joining = another(cluster, controller)
        await cluster.stop(joining)
        fault = Trap(("append", "fsync"), "__cluster_metadata-0", lambda: errno.EIO, skip=skip, times=None)
        cluster.machine(joining).disk_faults.set(fault)
        try:
            await cluster.start(joining)
        except NotRunning as error:
            assert "__cluster_metadata-0" in str(error)
        await cluster.until(lambda: cluster.machine(joining).state is State.OFF)

    on_virtual_cluster(story, seed=seed)


@pytest.mark.rule("C2", "E6")
def test_a_broker_that_finds_itself_replaced_stops_instead_of_leading_beside_its_successor() -> None:
    async def story(cluster: SimCluster) -> None:
        (controller,) = active_controllers(cluster)
        replaced = another(cluster, controller)
        cluster.pause(replaced)
        await cluster.until(lambda: fenced(cluster, controller, replaced))
        client = await connect(cluster, controller, CONTROLLER_PORT)
        response = await client.call(
            BrokerRegistrationRequest(
                broker_id=replaced,
                cluster_id=cluster.cluster_id,
                incarnation_id=UUID(int=1077),
                listeners=[Listener(name="PLAINTEXT", host="10.0.0.77", port=9092)],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                log_dirs=[UUID(int=1078)],
            ),
            4,
        )
        assert response.error_code == ErrorCode.NONE
        ended = cluster.machine(replaced).ended()
        cluster.resume(replaced)
        async with asyncio.timeout(10):
            await ended

    on_virtual_cluster(story)
