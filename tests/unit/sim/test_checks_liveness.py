"""Every clause of liveness: what is missing in a cluster in which one thing is not as it has to be in the end."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.sim.watched import ORDERS, World, watched

from tidelog.broker.controller_shell import ControllerShell
from tidelog.broker.metadata_publisher import MetadataPublisher
from tidelog.core.ids import BrokerId
from tidelog.replication.isr import Committed, PendingShrink
from tidelog.replication.isr_changes import IsrChanges


@pytest.fixture
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def committed(world: World, **fields: Any) -> None:
    """Another registration than the nodes have; it is asked of partitions alone."""
    topic_id, history, registration, needed = world.watch._committed[ORDERS] or pytest.fail("no such partition")
    world.watch._committed[ORDERS] = (topic_id, history, registration._replace(**fields), needed)


def killed(world: World) -> None:
    world.cluster.kill(3)
    world.cluster.run_for(0.001)


def other_metadata(world: World) -> None:
    image = world.watch.image
    world.watch.image = replace(image, brokers={number: image.brokers[number] for number in (1, 2)})


def pending(world: World) -> None:
    leader = world.leader().leader
    assert leader is not None
    settled = Committed(isr=leader.isr_state.isr)
    leader.isr_state = PendingShrink(committed=settled, leavers=frozenset([BrokerId(9)]), reason="planted")


def behind(world: World) -> None:
    world.follower().log.truncate_to(4, 0)


def unaware(world: World) -> None:
    """It has the record and does not know that it is committed."""
    world.follower().log.high_watermark = 4


def steps_down(world: World) -> None:
    replica = world.leader()
    assert replica.partition is not None
    replica.partition.go_offline("planted")
    replica.leader = None


CASES: list[tuple[Callable[[World], None], str]] = [
    (killed, "node 3 is not serving"),
    (other_metadata, "node 1 has replayed metadata that differs from the newest"),
    (pending, "orders-0: an ISR change is still pending on broker"),
    (behind, "LEO 4 HW 4, the leader has LEO 5"),
    (unaware, "LEO 5 HW 4, the leader has LEO 5"),
    (steps_down, "orders-0: broker 1 does not lead it"),
    (lambda world: committed(world, adding_replicas=(4,)), "orders-0 is being reassigned"),
    (lambda world: committed(world, removing_replicas=(3,)), "orders-0 is being reassigned"),
    (lambda world: committed(world, leader=-1), "orders-0 has no leader"),
    (lambda world: committed(world, isr=(1, 2)), "orders-0 has the ISR [1, 2] of "),
    (lambda world: committed(world, replicas=(1, 2, 3, 4), isr=(1, 2, 3, 4)), "orders-0 has no running replica on 4"),
]


@pytest.mark.parametrize(("damage", "told"), CASES)
def test_what_is_missing_is_named(world: World, damage: Callable[[World], None], told: str) -> None:
    assert world.liveness.missing() is None
    damage(world)
    missing = world.liveness.missing()
    assert missing is not None
    assert told in missing


def test_an_alter_partition_under_way_is_not_resolved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IsrChanges, "is_in_flight", True)
    assert world.liveness.missing() == "an AlterPartition of node 1 is still in flight"


@pytest.mark.parametrize(("active", "told"), [(False, "0 active controllers"), (True, "3 active controllers")])
def test_there_is_one_controller(world: World, active: bool, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerShell, "is_active", active)
    assert world.liveness.missing() == told


def test_nobody_stays_fenced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    image = world.watch.image
    brokers = {number: replace(broker, fenced=number == 2) for number, broker in image.brokers.items()}
    world.watch.image = replace(image, brokers=brokers)
    monkeypatch.setattr(MetadataPublisher, "image", world.watch.image)
    assert world.liveness.missing() == "broker 2 is fenced or shutting down"
