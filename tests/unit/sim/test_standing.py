"""Who waits in vain for a node is told which one it is, and what it is doing."""

import asyncio
import re
from collections.abc import Iterator

import pytest

from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.metadata_follower import MetadataFollower
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage
from tidelog.sim.cluster import SimCluster, host_of
from tidelog.sim.faults.injector import Injector
from tidelog.sim.faults.standing import standing
from tidelog.sim.links import Cut
from tidelog.sim.trace import Trace


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    with SimCluster(3, seed=1) as made:
        made.run(made.start_all())
        yield made


def newest(cluster: SimCluster) -> ClusterImage:
    control = cluster.node(1).control
    return EMPTY_IMAGE if control is None else control.image


def of_third(cluster: SimCluster) -> str:
    return standing(cluster.nodes[3], newest(cluster))


async def never(*_: object) -> None:
    await asyncio.get_running_loop().create_future()


def test_a_node_on_its_way(cluster: SimCluster) -> None:
    assert of_third(cluster) == "serving"
    cluster.pause(3)
    assert of_third(cluster) == "paused"
    cluster.resume(3)
    cluster.machine(3).ask_to_stop()
    cluster.run_for(0.0)
    assert of_third(cluster) == "stopping"
    cluster.run_for(5.0)
    assert of_third(cluster) == "not started since its last process ended: returned"
    cluster.start(3)
    assert of_third(cluster) == "starting, its metadata log is not open"
    cluster.kill(3)
    assert of_third(cluster) == "not started since its last process ended: killed"
    cut = cluster.network.apply(Cut.isolate(host_of(3)))
    cluster.start(3)
    cluster.run_for(1.0)
    known = newest(cluster).provenance.offset + 1
    assert re.fullmatch(
        rf"starting, behind: metadata replayed up to \d+ of {known}, leader -?\d+ in epoch \d+", of_third(cluster)
    )
    cluster.network.heal(cut)
    cluster.run_for(5.0)
    assert of_third(cluster) == "serving"


@pytest.mark.parametrize(
    ("where", "method", "told"),
    [
        (BrokerLifecycle, "unfence", "starting, fenced in broker epoch"),
        (BrokerLifecycle, "register", "starting, fenced in broker epoch"),
        (MetadataFollower, "load", "starting, its logs are not loaded"),
    ],
)
def test_peace_that_does_not_come_names_who_keeps_it_away(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch, where: type, method: str, told: str
) -> None:
    cluster.kill(3)
    monkeypatch.setattr(where, method, never)
    injector = Injector(cluster, 1, [], Trace(cluster.loop, lambda: 0))
    with pytest.raises(TimeoutError, match=rf"^20 s after the last fault: node 3 is {told}[^;]*$"):
        cluster.run(injector.quiet(20.0))
