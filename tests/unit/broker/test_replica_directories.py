"""Brokers with two log directories, one of which fails: only its partitions move, and the broker lives (C10)."""

import asyncio

import pytest
from tests.unit.broker.replica_stories import (
    create,
    isr,
    leader,
    log_of,
    registration,
    replica,
    until_isr,
    until_led_by,
    values,
    write,
)
from tests.unit.broker.virtual_cluster import on_virtual_cluster

from tidelog.broker.metadata_follower import Pace
from tidelog.core.ids import DIR_LOST, DIR_UNASSIGNED, NO_LEADER, TopicPartition
from tidelog.replication.roles import Leader, Offline
from tidelog.sim.cluster import SimCluster
from tidelog.sim.machine import State
from tidelog.storage.checkpoints import read_meta_properties

pytestmark = pytest.mark.rule("C10")
CONTROLLERS = 1
PROPERTIES = {"log.dirs": "/data,/more", "metadata.log.dir": "/data"}
TOPICS = [TopicPartition(f"topic-{number}", 0) for number in range(4)]


def directory_id(cluster: SimCluster, node_id: int, path: str) -> object:
    disk = cluster.machine(node_id).disk if not cluster.is_running(node_id) else cluster.machine(node_id).ports.disk
    meta = read_meta_properties(disk, f"{path}/meta.properties")
    assert meta is not None
    return meta.directory_id


def told(cluster: SimCluster, node_id: int, tp: TopicPartition) -> object:
    return registration(cluster, tp).directory_of(node_id)


def lies_in(cluster: SimCluster, node_id: int, tp: TopicPartition) -> str:
    return log_of(cluster, node_id, tp).directory.path


async def all_told(cluster: SimCluster, *topics: TopicPartition) -> None:
    def holds() -> bool:
        return all(
            told(cluster, node_id, tp) == directory_id(cluster, node_id, lies_in(cluster, node_id, tp))
            for tp in topics
            for node_id in registration(cluster, tp).replicas
        )

    await cluster.until(holds)


async def four_topics(cluster: SimCluster) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """All led by broker 1; those in the directory that will fail, and the others."""
    for tp in TOPICS:
        await create(cluster, [1, 2, 3], tp, min_insync_replicas="2")
        await write(cluster, b"before", tp)
    await all_told(cluster, *TOPICS)
    lost = [tp for tp in TOPICS if lies_in(cluster, 1, tp) == "/more"]
    kept = [tp for tp in TOPICS if tp not in lost]
    assert len(lost) == len(kept) == 2
    return lost, kept


def test_the_controller_learns_where_replicas_lie() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3])
        await cluster.until(lambda: DIR_UNASSIGNED not in registration(cluster).directories)
        await four_topics(cluster)
        before = {tp: registration(cluster, tp).directories for tp in TOPICS}
        await cluster.restart(2)
        for tp in TOPICS:
            await until_isr(cluster, {1, 2, 3}, tp)
        await all_told(cluster, *TOPICS)
        assert {tp: registration(cluster, tp).directories for tp in TOPICS} == before

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


@pytest.mark.rule("C5")
def test_a_broker_that_still_takes_its_roles_has_lost_nothing() -> None:
    """Many partitions take a while, and the broker is unfenced meanwhile: what has no log yet is in no lost directory,
    and nobody is elected uncleanly for it.
    """

    async def story(cluster: SimCluster) -> None:
        for tp in TOPICS:
            await create(cluster, [1], tp)
        before = {tp: registration(cluster, tp) for tp in TOPICS}
        await cluster.restart(1)
        for tp in TOPICS:
            await until_led_by(cluster, 1, tp)
        await asyncio.sleep(10.0)
        for tp in TOPICS:
            after = registration(cluster, tp)
            # One epoch for its going, one for its coming back.
            assert (after.directories, after.leader_epoch) == (before[tp].directories, before[tp].leader_epoch + 2)

    on_virtual_cluster(story, brokers=1, pace=lambda _: Pace(slice_s=-1.0))


def test_a_failed_directory_moves_its_own_leaders_and_no_others() -> None:
    async def story(cluster: SimCluster) -> None:
        lost, kept = await four_topics(cluster)
        fault = cluster.machine(1).disk_faults.gone("/more/")
        for tp in lost:
            # Whoever writes there next finds out.
            assert await write(cluster, b"after", tp) == 1
        for tp in lost:
            await until_led_by(cluster, 2, tp)
            assert isr(cluster, tp) == {2, 3}
            found = replica(cluster, 1, tp)
            assert found is not None
            assert isinstance(found.role, Offline)
        for tp in kept:
            assert (leader(cluster, tp), isr(cluster, tp)) == (1, {1, 2, 3})
            found = replica(cluster, 1, tp)
            assert found is not None
            assert isinstance(found.role, Leader)
            assert await write(cluster, b"after", tp) == 1
        assert cluster.machine(1).state is State.RUNNING
        # The disk is repaired and the broker started again: it catches up.
        await cluster.stop(1)
        cluster.machine(1).disk_faults.remove(fault)
        await cluster.start(1)
        for tp in TOPICS:
            await until_isr(cluster, {1, 2, 3}, tp)
            assert values(cluster, 1, tp) == [b"before", b"after"]

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


def test_a_directory_that_fails_on_a_follower_shrinks_only_its_partitions() -> None:
    async def story(cluster: SimCluster) -> None:
        for tp in TOPICS:
            await create(cluster, [1, 2, 3], tp)
        await all_told(cluster, *TOPICS)
        lost = [tp for tp in TOPICS if lies_in(cluster, 3, tp) == "/more"]
        cluster.machine(3).disk_faults.gone("/more/")
        for tp in TOPICS:
            await write(cluster, b"x", tp)
        for tp in TOPICS:
            await until_isr(cluster, {1, 2} if tp in lost else {1, 2, 3}, tp)

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


def test_a_directory_that_fails_before_the_controller_knows_what_lies_in_it() -> None:
    """Its replicas are told as lost, made or not; without that the controller would leave the leadership there."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], TOPICS[0])
        await all_told(cluster, TOPICS[0])
        # The next log goes where fewer are; it cannot be made.
        other = "/more" if lies_in(cluster, 1, TOPICS[0]) == "/data" else "/data"
        assert other == "/more"
        cluster.machine(1).disk_faults.gone("/more/")
        tp = TOPICS[1]
        with pytest.raises(TimeoutError):
            # It returns when every replica is there, and that of broker 1 never is.
            await create(cluster, [1, 2, 3], tp)
        await until_led_by(cluster, 2, tp)
        assert isr(cluster, tp) == {2, 3}
        assert leader(cluster, TOPICS[0]) == 1
        assert await write(cluster, b"x", tp) == 0

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


@pytest.mark.rule("E6")
def test_a_replica_that_may_not_lead_is_told_like_a_lost_one_and_another_leads() -> None:
    """Its log claims the epoch of its election already, which only damage explains."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], TOPICS[0], min_insync_replicas="2")
        await write(cluster, b"before", TOPICS[0])
        await all_told(cluster, TOPICS[0])
        log = log_of(cluster, 2, TOPICS[0])
        log.epochs.assign(50, log.log_end_offset)
        cluster.kill(1)
        await until_led_by(cluster, 3, TOPICS[0])
        assert told(cluster, 2, TOPICS[0]) == DIR_LOST
        # Loaded again it knows better: where it lies is told, and it joins.
        await cluster.restart(2)
        await until_isr(cluster, {2, 3}, TOPICS[0])
        assert await write(cluster, b"after", TOPICS[0]) == 1

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


def test_an_empty_disk_in_the_place_of_the_old_one_is_filled_and_joins() -> None:
    """A new directory has a new id: until it is told, nobody would take the replica into an ISR."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], min_insync_replicas="1")
        await write(cluster, b"x")
        before = told(cluster, 2, TopicPartition("orders", 0))
        await cluster.stop(2)
        cluster.wipe(2)
        await cluster.start(2)
        await until_isr(cluster, {1, 2, 3})
        assert told(cluster, 2, TopicPartition("orders", 0)) not in (before, DIR_UNASSIGNED)
        assert values(cluster, 2) == [b"x"]

    on_virtual_cluster(story, controllers=CONTROLLERS)


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("node_id", [1, 2])
def test_a_log_moved_to_another_directory_while_its_broker_was_down_is_found_there(node_id: int, orderly: bool) -> None:
    """What an administrator does by hand. The controller hears of the new place, and nothing is lost."""

    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], TOPICS[0], min_insync_replicas="2")
        await write(cluster, b"before", TOPICS[0])
        await all_told(cluster, TOPICS[0])
        source = lies_in(cluster, node_id, TOPICS[0])
        target = "/more" if source == "/data" else "/data"
        if orderly:
            await cluster.stop(node_id)
        else:
            cluster.kill(node_id)
        disk = cluster.machine(node_id).disk
        disk.rename(f"{source}/{TOPICS[0]}", f"{target}/{TOPICS[0]}")
        await until_led_by(cluster, 2 if node_id == 1 else 1, TOPICS[0])
        await write(cluster, b"meanwhile", TOPICS[0])
        await cluster.start(node_id)
        await until_isr(cluster, {1, 2, 3}, TOPICS[0])
        assert lies_in(cluster, node_id, TOPICS[0]) == target
        await all_told(cluster, TOPICS[0])
        await write(cluster, b"after", TOPICS[0])
        await cluster.until(lambda: len(values(cluster, node_id, TOPICS[0])) == 3)
        assert values(cluster, node_id, TOPICS[0]) == [b"before", b"meanwhile", b"after"]

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)


def test_losing_the_metadata_directory_stops_the_node_and_its_partitions_move() -> None:
    async def story(cluster: SimCluster) -> None:
        await create(cluster, [1, 2, 3], TOPICS[0])
        await write(cluster, b"x", TOPICS[0])
        cluster.machine(1).disk_faults.gone("/data/")
        # An operation in it is what finds out: the next append of metadata.
        await create(cluster, [2, 3], TOPICS[1])
        await cluster.until(lambda: cluster.machine(1).state is State.OFF)
        await until_led_by(cluster, 2, TOPICS[0])
        assert await write(cluster, b"y", TOPICS[0]) == 1
        assert leader(cluster, TOPICS[1]) != NO_LEADER

    on_virtual_cluster(story, controllers=CONTROLLERS, properties=PROPERTIES)
