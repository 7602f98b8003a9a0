"""A broker that is no controller never votes: it starts again whatever became of its `quorum-state`."""

import random
from collections.abc import Callable

import pytest

from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.sim.cluster import FIRST_CONTROLLER, SimCluster
from tidelog.sim.disk import SimDisk


def _lose(disk: SimDisk, path: str) -> None:
    disk.lose(path)


def _make_stale(disk: SimDisk, path: str) -> None:
    assert disk.make_stale(path, random.Random(1))


@pytest.mark.rule("Q1")
@pytest.mark.parametrize("damage", [_lose, _make_stale])
def test_a_broker_that_lost_its_quorum_state_serves_again(damage: Callable[[SimDisk, str], None]) -> None:
    with SimCluster(1, controllers=1, properties={"metadata.log.dir": "/metadata", "log.dirs": "/data"}) as cluster:

        async def story() -> None:
            await cluster.start_all()
            # A new leader epoch, so that the stored one was written more than once.
            await cluster.restart(FIRST_CONTROLLER)
            await cluster.until(lambda: cluster.node(1).control.raft.epoch > 1)  # type: ignore[union-attr]
            cluster.kill(1)
            disk = cluster.machine(1).disk
            for path in disk.files("/metadata", QUORUM_STATE):
                damage(disk, path)
            await cluster.start(1)

        cluster.run(story())
        assert cluster.nodes[1].serves
