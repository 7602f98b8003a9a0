"""Elections of whole nodes on virtual time: who leads when leaders and followers go and come back (C3, C5, C6, C7)."""

import pytest
from tests.unit.broker.replica_stories import (
    ORDERS,
    a_client,
    create,
    isr,
    leader,
    log_of,
    registration,
    set_config,
    until_isr,
    until_led_by,
    values,
    write,
)
from tests.unit.broker.virtual_cluster import on_virtual_cluster

from tidelog.client.elections import ElectionType, elect_leaders
from tidelog.core.ids import NO_LEADER
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.sim.cluster import SimCluster
from tidelog.wire.errors import ErrorCode

# Brokers that may die, and a quorum that stays: what is shown here is elections of partitions.
CONTROLLERS = 3


@pytest.mark.rule("C3")
def test_the_first_in_sync_replica_in_the_order_of_the_assignment_leads() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [3, 1, 2], min_insync_replicas="1")
        await write(cluster, b"one")
        assert leader(cluster) == 3
        cluster.kill(3)
        await until_led_by(cluster, 1)
        cluster.kill(1)
        await until_led_by(cluster, 2)
        # Whoever comes back follows: the leader is acceptable and stays.
        await cluster.start(3)
        await cluster.start(1)
        await until_isr(cluster, {1, 2, 3})
        assert leader(cluster) == 2
        # The next in the order of the assignment, not of the time it came back, nor of its id.
        cluster.kill(2)
        await until_led_by(cluster, 3)
        assert await write(cluster, b"two") == 1

    on_virtual_cluster(story, controllers=CONTROLLERS)


@pytest.mark.rule("C5", "C3")
def test_replicas_that_left_cleanly_one_after_the_other_may_lead_again_without_loss() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2")
        for number in range(5):
            await write(cluster, b"%d" % number)
        await cluster.stop(1)
        await until_isr(cluster, {2, 3})
        assert registration(cluster).elr == ()
        await cluster.stop(2)
        await until_isr(cluster, {3})
        assert registration(cluster).elr == (2,)
        await cluster.stop(3)
        await until_led_by(cluster, NO_LEADER)
        assert (registration(cluster).isr, set(registration(cluster).elr)) == ((), {2, 3})
        assert registration(cluster).last_known_elr == (3,)
        # It has not seen what the others may have had: it is not asked.
        await cluster.start(1)
        assert leader(cluster) == NO_LEADER
        await cluster.start(2)
        await until_led_by(cluster, 2)
        assert registration(cluster).leader_recovery_state is LeaderRecoveryState.RECOVERED
        await until_isr(cluster, {1, 2})
        assert await write(cluster, b"5") == 5
        assert values(cluster, 1) == values(cluster, 2) == [b"%d" % number for number in range(6)]

    on_virtual_cluster(story, controllers=CONTROLLERS)


@pytest.mark.rule("C5")
def test_a_replica_that_lost_power_leaves_the_eligible_ones_and_a_complete_one_is_waited_for() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="2")
        for number in range(5):
            await write(cluster, b"%d" % number)
        await cluster.stop(1)
        await until_isr(cluster, {2, 3})
        cluster.power_cut(2)
        await until_isr(cluster, {3})
        assert registration(cluster).elr == (2,)
        await cluster.stop(3)
        await until_led_by(cluster, NO_LEADER)
        # Back, and nobody knows what its disk kept: not eligible any more.
        await cluster.start(2)
        await cluster.until(lambda: registration(cluster).elr == (3,))
        await cluster.start(1)
        assert leader(cluster) == NO_LEADER
        await cluster.start(3)
        await until_led_by(cluster, 3)
        await until_isr(cluster, {1, 2, 3})
        assert values(cluster, 1) == values(cluster, 2) == values(cluster, 3) == [b"%d" % number for number in range(5)]

    on_virtual_cluster(story, controllers=CONTROLLERS)


@pytest.mark.rule("C3", "C6")
def test_the_last_known_leader_leads_again_when_nobody_is_known_to_be_complete() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2], min_insync_replicas="1")
        await write(cluster, b"kept")
        cluster.kill(1)
        await until_led_by(cluster, 2)
        await write(cluster, b"also")
        cluster.kill(2)
        await until_led_by(cluster, NO_LEADER)
        assert registration(cluster).last_known_elr == (2,)
        await cluster.start(1)
        assert leader(cluster) == NO_LEADER
        # It was killed, so its disk may lack something: an unclean election, said and counted.
        before = registration(cluster).leader_epoch
        await cluster.start(2)
        await until_led_by(cluster, 2)
        await cluster.until(lambda: registration(cluster).leader_recovery_state is LeaderRecoveryState.RECOVERED)
        assert registration(cluster).leader_epoch == before + 1
        await until_isr(cluster, {1, 2})
        assert values(cluster, 1) == values(cluster, 2) == [b"kept", b"also"]

    on_virtual_cluster(story, brokers=2, controllers=CONTROLLERS)


async def left_behind(cluster: SimCluster) -> None:
    """Broker 1 has the first record, broker 2 had four and is gone; nobody leads, and the ELR is broker 2."""
    await create(cluster, [1, 2], min_insync_replicas="1")
    await write(cluster, b"both")
    await cluster.stop(1)
    await until_isr(cluster, {2})
    for value in (b"lost-1", b"lost-2", b"lost-3"):
        await write(cluster, value)
    await cluster.stop(2)
    await until_led_by(cluster, NO_LEADER)
    await cluster.start(1)
    assert leader(cluster) == NO_LEADER


@pytest.mark.rule("C6", "E3", "E5")
@pytest.mark.parametrize("way", ["config", "request"])
def test_an_unclean_election_loses_records_and_names_them(way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimCluster) -> None:
        await left_behind(cluster)
        states: list[LeaderRecoveryState] = []
        cluster.on_metadata = lambda node, image, delta: states.extend(
            changed.partitions[0].leader_recovery_state
            for changed in delta.topics.values()
            if changed.after.name == ORDERS.topic
        )
        if way == "config":
            await set_config(cluster, ORDERS.topic, unclean_leader_election_enable="true")
        else:
            async with a_client(cluster, 1) as client:
                (result,) = await elect_leaders(client, ElectionType.UNCLEAN, {ORDERS.topic: [0]})
                assert result.error is None
                (again,) = await elect_leaders(client, ElectionType.UNCLEAN, {ORDERS.topic: [0]})
                assert again.not_needed
        await until_led_by(cluster, 1)
        await cluster.until(lambda: registration(cluster).leader_recovery_state is LeaderRecoveryState.RECOVERED)
        assert LeaderRecoveryState.RECOVERING in states
        assert await write(cluster, b"new") == 1
        # The one who had more gives it up when it is back, and says what that was.
        await cluster.start(2)
        await until_isr(cluster, {1, 2})
        assert values(cluster, 1) == values(cluster, 2) == [b"both", b"new"]
        counted = [
            control.election_counters.unclean_leader_elections
            for node_id in cluster.nodes
            if (control := cluster.node(node_id).control) is not None and control.controller is not None
        ]
        assert counted == [1] * CONTROLLERS

    with caplog.at_level("INFO"):
        on_virtual_cluster(story, brokers=2, controllers=CONTROLLERS)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    (elected,) = [line for line in warnings if " to 1 in epoch" in line]
    assert "unclean" in elected and "complete before: 2" in elected
    (began,) = [line for line in warnings if "leads uncleanly" in line]
    assert "from offset 1 " in began
    (lost,) = [line for line in warnings if "loses committed offsets" in line]
    assert lost.startswith("orders-0: this replica loses committed offsets 1 to 3 (leader epochs [1])")


@pytest.mark.rule("C6", "C3")
def test_without_permission_a_partition_waits_for_its_complete_replica() -> None:
    async def story(cluster: SimCluster) -> None:
        await left_behind(cluster)
        async with a_client(cluster, 1) as client:
            (result,) = await elect_leaders(client, ElectionType.PREFERRED, {ORDERS.topic: [0]})
            assert result.error is not None
            assert result.error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        await cluster.start(2)
        await until_led_by(cluster, 2)
        await until_isr(cluster, {1, 2})
        assert len(values(cluster, 1)) == 4

    on_virtual_cluster(story, brokers=2, controllers=CONTROLLERS)


@pytest.mark.rule("C7")
def test_the_preferred_leader_leads_again_on_request() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [2, 3, 1])
        cluster.kill(2)
        await until_led_by(cluster, 3)
        await write(cluster, b"meanwhile")
        async with a_client(cluster, 1, 3) as client:
            (result,) = await elect_leaders(client, ElectionType.PREFERRED, {ORDERS.topic: [0]})
            assert result.error is not None
            assert result.error.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            await cluster.start(2)
            await until_isr(cluster, {1, 2, 3})
            assert leader(cluster) == 3
            (result,) = await elect_leaders(client, ElectionType.PREFERRED)
            assert (result.tp, result.error) == (ORDERS, None)
        await until_led_by(cluster, 2)
        assert isr(cluster) == {1, 2, 3}
        assert await write(cluster, b"after") == 1

    on_virtual_cluster(story, controllers=CONTROLLERS)


@pytest.mark.rule("C7")
@pytest.mark.parametrize("enabled", [True, False])
def test_the_preferred_leader_leads_again_by_the_timer(enabled: bool) -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [2, 3, 1])
        cluster.kill(2)
        await until_led_by(cluster, 3)
        await cluster.start(2)
        await until_isr(cluster, {1, 2, 3})
        assert leader(cluster) == 3
        if enabled:
            await cluster.until(lambda: leader(cluster) == 2, timeout_s=11)
            await until_led_by(cluster, 2)
            assert await write(cluster, b"x") == log_of(cluster, 2).log_end_offset - 1
        else:
            with pytest.raises(TimeoutError):
                await cluster.until(lambda: leader(cluster) != 3, timeout_s=30)

    properties = {
        "auto.leader.rebalance.enable": str(enabled).lower(),
        "leader.imbalance.check.interval.seconds": "10",
    }
    on_virtual_cluster(story, controllers=CONTROLLERS, properties=properties)
