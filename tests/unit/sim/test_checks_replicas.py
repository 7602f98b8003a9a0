"""Every invariant of replicas, leaders and logs can fail: a small cluster is damaged as a bug would, and it says so."""

from collections.abc import Callable, Iterator

import pytest
from tests.unit.sim.watched import CRC_AT, EPOCH_AT, ORDERS, VALUES, World, watched

from tidelog.core.ids import BrokerId
from tidelog.replication.isr import Committed, PendingExpand
from tidelog.sim.checks.invariant import Invariant, InvariantBroken
from tidelog.sim.checks.leaders import Epochs, HighWatermark, QuorumSuperset
from tidelog.sim.checks.logs import Idempotence, Offsets
from tidelog.sim.checks.look import ReplicaLook
from tidelog.sim.checks.replicas import (
    CandidateCompleteness,
    GloballyDurable,
    LeaderCompleteness,
    LogMatching,
    StrongIsr,
)

END = len(VALUES)


@pytest.fixture
def world() -> Iterator[World]:
    with watched() as found:
        yield found


def cut(replica: ReplicaLook, offset: int = END - 1) -> None:
    replica.log.truncate_to(offset, 0)


def cut_leader(world: World) -> None:
    cut(world.leader())


def cut_follower(world: World) -> None:
    cut(world.follower())


def cut_all(world: World) -> None:
    for replica in world.look().replicas:
        cut(replica)


def another_record(world: World) -> None:
    """The same offset and epoch, other bytes, all in order by itself."""
    world.overwrite(world.follower(), 1, -1, new_crc=True)


def another_epoch(world: World) -> None:
    world.overwrite(world.follower(), 1, EPOCH_AT + 3)


def wrong_crc(world: World) -> None:
    world.overwrite(world.follower(), 1, CRC_AT)


def written_again(world: World) -> None:
    """The first batch once more, where the log ends."""
    replica = world.follower()
    first = replica.mirror.at(0)
    assert first is not None
    data = bytearray(replica.mirror.data(first))
    data[:8] = END.to_bytes(8, "big")
    replica.log.append_as_follower(memoryview(data), 0)


def hole(world: World) -> None:
    replica = world.follower()
    first = replica.mirror.at(0)
    assert first is not None
    data = bytearray(replica.mirror.data(first))
    data[:8] = (END + 2).to_bytes(8, "big")
    replica.log.append_as_follower(memoryview(data), 0)


def counts_too_few(world: World) -> None:
    leader = world.leader().leader
    assert leader is not None
    leader.isr_state = Committed(isr=frozenset(list(leader.isr_state.isr)[:2]))


def wants_who_lacks_something(world: World) -> None:
    follower, leader = world.follower(), world.leader().leader
    assert leader is not None
    registration = world.watch.image.partition(ORDERS)
    assert registration is not None
    others = frozenset(BrokerId(each) for each in registration.isr if each != follower.node_id)
    leader.isr_state = PendingExpand(
        committed=Committed(isr=others), newcomer=BrokerId(follower.node_id), reason="planted"
    )
    topic_id, history, _, needed = world.watch._committed[ORDERS] or pytest.fail("no such partition")
    shrunk = registration._replace(isr=tuple(others))
    world.watch._committed[ORDERS] = (topic_id, history, shrunk, needed)
    cut(follower)


def beyond_the_end(world: World) -> None:
    world.follower().log.high_watermark = END + 1


CASES: list[tuple[type[Invariant], Callable[[World], None], str]] = [
    (LeaderCompleteness, cut_leader, "the leader broker . .* ends at 4, below 5"),
    (CandidateCompleteness, cut_follower, "is in the ISR and ends at 4, below 5"),
    (
        CandidateCompleteness,
        wants_who_lacks_something,
        r"proposes broker . \(start 1\) for the ISR, but its log ends at 4",
    ),
    (StrongIsr, another_record, r"in the ISR, broker 2 \(start 1\) has 1..1 of epoch 0"),
    (StrongIsr, another_epoch, r"in the ISR, broker 2 \(start 1\) has 1..1 of epoch 1"),
    (QuorumSuperset, counts_too_few, "the controller has ISR"),
    (LogMatching, another_record, "has 1..1 of epoch 0 .*, but the committed log has 1..1 of epoch 0"),
    (LogMatching, another_epoch, "has 1..1 of epoch 1 .*, but the committed log has 1..1 of epoch 0"),
    (GloballyDurable, cut_all, "acknowledged up to 5"),
    (HighWatermark, beyond_the_end, "outside the log"),
    (Epochs, another_epoch, "its epoch cache has epoch 0"),
    (Offsets, wrong_crc, "the CRC is wrong"),
    (Offsets, hole, "but the next offset is 5"),
    (Idempotence, written_again, "is sequence 0 of producer"),
]


@pytest.mark.parametrize(("kind", "damage", "told"), CASES, ids=[f"{c[0].name()}-{c[1].__name__}" for c in CASES])
def test_what_is_damaged_breaks_it(
    world: World, kind: type[Invariant], damage: Callable[[World], None], told: str
) -> None:
    kind().on_partition(world.look())
    damage(world)
    with pytest.raises(InvariantBroken, match=told):
        kind().on_partition(world.look())


def test_a_high_watermark_that_goes_back_within_an_epoch(world: World) -> None:
    check = HighWatermark()
    check.on_partition(world.look())
    world.leader().log.high_watermark = END - 1
    with pytest.raises(InvariantBroken, match="went back from 5 to 4 in epoch 0"):
        check.on_partition(world.look())


def test_a_follower_that_takes_for_committed_what_no_leader_showed(world: World) -> None:
    look = world.look()
    look.history.true_hw = look.history.highest_hw = END - 1
    for replica in look.replicas:
        replica.log.high_watermark = END - 1
    check = HighWatermark()
    check.on_partition(look)
    follower = next(replica for replica in look.replicas if replica.leader is None)
    follower.log.high_watermark = END
    with pytest.raises(InvariantBroken, match="has 5, no leader ever had a high watermark above 4"):
        check.on_partition(look)
    # What it heard before an unclean election says nothing of what there is since, but a leader did show it.
    look.history.begin_era(7, 1)
    with pytest.raises(InvariantBroken, match="no leader ever had a high watermark above 4"):
        check.on_partition(look)
    follower.log.high_watermark = END - 1
    check.on_partition(look)


def test_a_high_watermark_that_moves_under_min_isr(world: World) -> None:
    check = HighWatermark()
    replica = world.leader()
    assert replica.leader is not None
    replica.leader.isr_state = Committed(isr=frozenset([BrokerId(replica.node_id)]))
    replica.log.high_watermark = END - 1
    check.on_partition(world.look())
    check.on_partition(world.look())
    replica.log.high_watermark = END
    with pytest.raises(InvariantBroken, match=r"moved from 4 to 5 with an ISR of .*, 2 are needed"):
        check.on_partition(world.look())


def test_two_leaders_in_one_epoch(world: World) -> None:
    check, look = Epochs(), world.look()
    check.on_partition(look)
    leader = look.leader
    assert leader is not None
    for replica in look.replicas:
        replica.leader = leader.leader
    with pytest.raises(InvariantBroken, match="both lead in epoch 0"):
        check.on_partition(look)


def test_a_log_that_is_cut_and_keeps_a_later_epoch(world: World) -> None:
    check, look = Epochs(), world.look()
    check.on_partition(look)
    replica = next(replica for replica in look.replicas if replica.leader is None)
    cut(replica)
    replica.log.epochs.assign(3, END)
    replica.mirror.refresh()
    with pytest.raises(InvariantBroken, match="cut to 4, its cache still has"):
        check.on_partition(look)


def test_the_watch_sees_what_a_node_finds_on_its_disk(world: World) -> None:
    """Not only by hand: a follower starts with another record below its high watermark."""
    cluster = world.cluster
    replica = world.follower()

    async def story() -> None:
        await cluster.stop(replica.node_id)
        world.overwrite(replica, 1, -1, new_crc=True)
        await cluster.start(replica.node_id)
        await cluster.until(world.watch.failure.done)

    cluster.run(story())
    broken = world.failure()
    assert broken is not None
    assert broken.invariant in ("LogMatching", "StrongIsr")
    assert world.watch.describe(broken)[0].startswith("orders-0 committed at metadata offset ")
