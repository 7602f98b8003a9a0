"""How a process began is judged by the process that registered, whatever has become of it since."""

import random
from collections.abc import Iterator

import pytest
from tests.unit.sim.watched import ORDERS, World

from tidelog.metadata.image import ClusterImage, PartitionRegistration
from tidelog.sim.campaign import PROPERTIES
from tidelog.sim.cluster import CONTROLLER_PORT, SimCluster, host_of
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.field import Field
from tidelog.sim.faults.storage import false_clean_shutdown
from tidelog.sim.links import Cut
from tidelog.sim.machine import State
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN


def newest(cluster: SimCluster) -> ClusterImage:
    images = [node.node.control.image for node in cluster.nodes.values() if node.node and node.node.control]
    return max(images, key=lambda image: image.provenance.offset)


def registered(cluster: SimCluster) -> PartitionRegistration:
    found = newest(cluster).partition(ORDERS)
    assert found is not None
    return found


async def stop(cluster: SimCluster, broker: int) -> None:
    cluster.machine(broker).ask_to_stop()
    await cluster.until(lambda: cluster.machine(broker).state is State.OFF)


async def kill_while_its_registration_is_on_its_way(cluster: SimCluster, active: int, broker: int) -> None:
    """It is written down by the controller, and committed when the broker is gone again."""
    others = [host_of(node_id) for node_id, role in cluster.roles.items() if role == "controller" and node_id != active]
    node, epoch = cluster.nodes[active].node, newest(cluster).brokers[broker].epoch
    assert node is not None
    assert node.control is not None
    publisher = node.control.publisher

    def is_written_down() -> bool:
        return any(broker in prepared.delta.brokers for prepared in publisher._prepared)

    cluster.start(broker)
    # Nobody decides anything else meanwhile.
    cut = cluster.network.apply(Cut.partition([[host_of(active)], others]).on_port(CONTROLLER_PORT))
    await cluster.until(is_written_down, every_s=0.0005, timeout_s=1.0)
    cluster.kill(broker)
    cluster.network.heal(cut)
    await cluster.until(lambda: newest(cluster).brokers[broker].epoch > epoch, every_s=0.01)


@pytest.fixture
def world() -> Iterator[World]:
    with SimCluster(3, controllers=3, seed=1, properties=PROPERTIES) as cluster:
        found = World(cluster)
        cluster.run(found.begin())
        yield found


def followers(cluster: SimCluster) -> list[int]:
    return [broker for broker in (1, 2, 3) if broker != registered(cluster).leader]


def test_who_ended_in_order_may_die_before_anybody_hears_of_its_next_registration(world: World) -> None:
    cluster = world.cluster

    async def story() -> None:
        for broker in (brokers := followers(cluster)):
            await stop(cluster, broker)
        last = brokers[-1]
        await cluster.until(lambda: registered(cluster).elr == (last,))
        active = Field(cluster, Budget(lambda image, topic: 2)).active_controller()
        assert active is not None
        await kill_while_its_registration_is_on_its_way(cluster, active, last)
        # What it has lost is said by the next one.
        assert registered(cluster).elr == (last,)
        assert world.failure() is None
        cluster.start(last)
        await cluster.until(lambda: registered(cluster).elr == ())

    cluster.run(story())
    assert world.failure() is None


def test_false_marks_of_an_orderly_end_are_no_truer_if_a_start_leaves_them_there(world: World) -> None:
    cluster = world.cluster

    async def story() -> None:
        other, last = followers(cluster)
        machine = cluster.machine(last)
        await stop(cluster, last)
        await cluster.start(last)
        await cluster.until(lambda: last in registered(cluster).isr)
        await stop(cluster, other)
        machine.kill()
        await cluster.until(lambda: registered(cluster).elr == (last,))
        for directory in cluster.nodes[last].config.log_dirs:
            assert machine.disk.make_stale(f"{directory}/{CLEAN_SHUTDOWN}", random.Random(1))
        machine.disk_faults.kill_at(machine.kill_inside, "remove", path_part=CLEAN_SHUTDOWN)
        cluster.start(last)
        await cluster.until(lambda: machine.state is State.OFF)
        assert registered(cluster).elr == (last,)
        cluster.start(last)
        await cluster.until(lambda: registered(cluster).elr == ())

    cluster.run(story())
    assert world.failure() is None


def test_the_mark_of_the_process_that_registered_last_is_no_false_one(world: World) -> None:
    cluster = world.cluster
    field = Field(cluster, Budget(lambda image, topic: 2))

    async def story() -> None:
        broker = followers(cluster)[0]
        machine, epoch = cluster.machine(broker), newest(cluster).brokers[broker].epoch
        marks = [f"{directory}/{CLEAN_SHUTDOWN}" for directory in cluster.nodes[broker].config.log_dirs]
        await stop(cluster, broker)
        cluster.start(broker)
        await cluster.until(lambda: not any(map(machine.disk.has, marks)), every_s=0.0005)
        assert newest(cluster).brokers[broker].epoch == epoch
        applied = false_clean_shutdown(field, random.Random(1))
        assert machine.state is State.OFF
        # It has taken the node down, and nothing more.
        assert applied is not None and applied.moment is not None and not applied.moment.came
        assert not any(map(machine.disk.has, marks))
        await cluster.start(broker)
        # Since then another process has registered.
        applied = false_clean_shutdown(field, random.Random(1))
        assert applied is not None and applied.moment is None
        assert all(map(machine.disk.has, marks))

    cluster.run(story())
    assert world.failure() is None
