"""How a process began is judged by the process that registered, whatever has become of it since."""

from tests.unit.sim.watched import ORDERS, World

from tidelog.metadata.image import ClusterImage, PartitionRegistration
from tidelog.sim.campaign import PROPERTIES
from tidelog.sim.cluster import CONTROLLER_PORT, SimCluster, host_of
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.field import Field
from tidelog.sim.links import Cut
from tidelog.sim.machine import State


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


def test_who_ended_in_order_may_die_before_anybody_hears_of_its_next_registration() -> None:
    with SimCluster(3, controllers=3, seed=1, properties=PROPERTIES) as cluster:
        world = World(cluster)
        cluster.run(world.begin())

        async def story() -> None:
            brokers = [1, 2, 3]
            brokers.remove(registered(cluster).leader)
            for broker in brokers:
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
