"""What the checks of committed metadata call broken, and what they do not."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.controller.harness import node_config

from tidelog.metadata.image import (
    NO_TOPICS_BY_ID,
    BrokerRegistration,
    ClusterImage,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from tidelog.sim.checks.invariant import Invariant, InvariantBroken
from tidelog.sim.checks.metadata import Metadata, MetadataEpochs, Reassignment, Rules, UncleanExclusion, is_unclean

RECOVERING = LeaderRecoveryState.RECOVERING


def partition(isr: Sequence[int], leader: int, epochs: tuple[int, int], **fields: Any) -> PartitionRegistration:
    """`epochs`: of the leader, of the partition."""
    replicas = fields.pop("replicas", (1, 2, 3))
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(uuid.UUID(int=100 + each) for each in replicas),
        isr=tuple(isr),
        leader=leader,
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
        **fields,
    )


def image(registration: PartitionRegistration, starts: Sequence[int] = (1, 1, 1, 1)) -> ClusterImage:
    """`starts`: which start of each broker, from the first on, is registered; nobody is fenced but who is at 0."""
    topic = TopicImage("orders", uuid.UUID(int=1), {0: registration})
    brokers = {
        number: BrokerRegistration(
            broker_id=number,
            epoch=10 * number + start,
            incarnation_id=uuid.UUID(int=10 * number + start),
            listeners=(),
            fenced=start == 0,
            log_dirs=(uuid.UUID(int=100 + number),),
        )
        for number, start in enumerate(starts, 1)
    }
    features = {"eligible.leader.replicas.version": 1}
    return ClusterImage(
        topics_by_id=NO_TOPICS_BY_ID.updated({topic.topic_id: topic}), brokers=brokers, features=features
    )


def test_nobody_is_let_in_by_what_an_earlier_process_had() -> None:
    """KIP-903: the leader has to have seen it caught up under the broker epoch that it has when that is committed."""
    before, after = partition([1, 2], 1, (4, 7)), partition([1, 2, 3], 1, (4, 8))
    UncleanExclusion(lambda broker: False).on_metadata(image(before), image(after))
    UncleanExclusion(lambda broker: False, lambda tp, broker_id: 31).on_metadata(image(before), image(after))
    check = UncleanExclusion(lambda broker: False, lambda tp, broker_id: 30)
    with pytest.raises(
        InvariantBroken, match="broker 3 joined the ISR with broker epoch 31, but caught up with broker epoch 30"
    ) as broken:
        check.on_metadata(image(before), image(after))
    assert str(broken.value.partition) == "orders-0"
    # Nobody lets in who is elected.
    check.on_metadata(
        image(partition([], -1, (4, 7))), image(partition([3], 3, (5, 8), leader_recovery_state=RECOVERING))
    )


def test_whoever_is_elected_from_neither_isr_nor_elr_has_to_say_so() -> None:
    check = UncleanExclusion(lambda broker: False)
    nobody = partition([], -1, (4, 7), last_known_elr=(2,))
    check.on_metadata(image(nobody), image(partition([2], 2, (5, 8), leader_recovery_state=RECOVERING)))
    with pytest.raises(InvariantBroken, match="broker 2 leads without recovery, but was in neither ISR nor ELR"):
        check.on_metadata(image(nobody), image(partition([2], 2, (5, 8))))


def test_who_joins_and_leads_in_one_change_completes_a_reassignment() -> None:
    """Seed 3 once: taken for an unclean election, after which nothing that was promised before counted."""
    before = partition([4, 3, 2], 2, (2, 17), replicas=(1, 4, 3, 2), adding_replicas=(1,), removing_replicas=(2,))
    after = partition([1, 4, 3], 1, (3, 18), replicas=(1, 4, 3))
    assert not is_unclean(before, after)
    UncleanExclusion(lambda broker: False).on_metadata(image(before), image(after))
    # With a batch in between that nobody saw, it may have been one.
    assert is_unclean(before, after._replace(partition_epoch=19))


RULES = Rules(node_config(min_insync_replicas="2"))
WELL = partition([1, 2, 3], 1, (4, 7))


def judge(check: Invariant, after: PartitionRegistration, before: PartitionRegistration = WELL, **more: Any) -> None:
    check.on_metadata(image(before), image(after, **more))


@pytest.mark.parametrize(
    ("after", "starts", "told"),
    [
        (partition([2, 3], 1, (4, 8)), (1, 1, 1), "the leader is not in the ISR"),
        (partition([1, 2, 4], 1, (4, 8)), (1, 1, 1, 1), "ISR or ELR names a replica that is not assigned"),
        (partition([1], 1, (4, 8), elr=(1,)), (1, 1, 1), "ISR and ELR overlap"),
        (
            partition([1, 2], 1, (4, 8), elr=(3,)),
            (1, 1, 1),
            "the ELR is not empty, although the ISR has min.insync.replicas members",
        ),
        (WELL, (1, 1, 0), "broker 3 is in the ISR, although it is fenced"),
    ],
)
def test_metadata_that_contradicts_itself(after: PartitionRegistration, starts: Sequence[int], told: str) -> None:
    check = Metadata(RULES)
    judge(check, WELL)
    judge(check, partition([1], 1, (4, 8), elr=(2,)))
    judge(check, partition([], -1, (5, 9), elr=(2, 1)), starts=(0, 0, 0))
    with pytest.raises(InvariantBroken, match=told) as broken:
        judge(check, after, starts=starts)
    assert str(broken.value.partition) == "orders-0"


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (partition([1, 2], 1, (4, 7)), "the partition changed, but its partition epoch did not"),
        (partition([1, 2, 3], 2, (4, 8)), "the leader changed, or a replica left, but the leader epoch did not grow"),
        (partition([1, 2, 3], 1, (4, 6)), "an epoch went back"),
        (partition([1, 2, 3], 2, (3, 8)), "an epoch went back"),
        (partition([1, 2, 3], 2, (6, 8)), "the leader epoch grew, but the partition epoch did not"),
        (partition([1, 2], 1, (5, 8)), "the leader epoch grew without a reason"),
    ],
)
def test_epochs_that_do_not_tell_of_a_change(after: PartitionRegistration, told: str) -> None:
    check = MetadataEpochs()
    judge(check, partition([1, 2], 1, (4, 8)))
    judge(check, partition([1, 2, 3], 2, (5, 8)))
    with pytest.raises(InvariantBroken, match=told) as broken:
        judge(check, after)
    assert str(broken.value.partition) == "orders-0"


TO_FOUR = {"replicas": (1, 2, 4, 3), "adding_replicas": (4,), "removing_replicas": (3,)}


def test_a_reassignment_puts_nobody_into_the_isr() -> None:
    check = Reassignment(RULES)
    begun = partition([1, 2, 3], 1, (4, 8), **TO_FOUR)
    judge(check, begun)
    # Who catches up is added by its leader; with that the reassignment may be complete.
    judge(check, partition([1, 2, 3, 4], 1, (4, 9), **TO_FOUR), begun)
    judge(check, partition([1, 2, 4], 1, (5, 9), replicas=(1, 2, 4)), begun)
    with pytest.raises(InvariantBroken, match=r"the assignment put \[4\] into the ISR") as broken:
        judge(check, partition([1, 2, 3, 4], 1, (4, 8), **TO_FOUR))
    assert str(broken.value.partition) == "orders-0"


def test_a_reassignment_does_not_take_the_isr_below_the_minimum() -> None:
    check = Reassignment(RULES)
    begun = partition([1, 3], 1, (4, 8), **TO_FOUR)
    judge(check, partition([1, 3], 1, (4, 9), **TO_FOUR), begun)
    judge(check, partition([1], 1, (5, 9), replicas=(1,)), begun)
    with pytest.raises(InvariantBroken, match="the ISR fell below 2"):
        judge(check, partition([1], 1, (5, 9), replicas=(1, 2, 4)), begun)


@pytest.mark.parametrize("where", ["isr", "elr"])
def test_who_ended_uncleanly_is_out_with_its_next_registration(where: str) -> None:
    check = UncleanExclusion(lambda broker: broker.broker_id == 3)
    two = partition([1, 2], 1, (4, 8))
    still = partition([1, 2, 3], 1, (4, 7)) if where == "isr" else partition([1], 1, (4, 7), elr=(3,))
    judge(check, two, still, starts=(1, 1, 2))
    # In order it may stay.
    judge(UncleanExclusion(lambda broker: False), still, still, starts=(1, 1, 2))
    with pytest.raises(
        InvariantBroken, match="broker 3 registered after an unclean shutdown, but orders-0 still has it"
    ):
        judge(check, still, still, starts=(1, 1, 2))


def test_who_registers_under_its_old_epoch_is_another_all_the_same() -> None:
    check = UncleanExclusion(lambda broker: broker.broker_id == 3)
    after = image(WELL, starts=(1, 1, 2))
    old = dict(after.brokers)
    old[3] = replace(old[3], epoch=31)
    with pytest.raises(InvariantBroken, match="broker 3 registered after an unclean shutdown"):
        check.on_metadata(image(WELL), replace(after, brokers=old))


def test_nobody_comes_into_the_elr_from_nowhere() -> None:
    check = UncleanExclusion(lambda broker: False)
    one = partition([1], 1, (4, 7))
    judge(check, partition([1], 1, (4, 8), elr=(2,)), partition([1, 2], 1, (4, 7)))
    with pytest.raises(InvariantBroken, match="broker 2 joined the ELR, but was in neither ISR nor ELR"):
        judge(check, partition([1], 1, (4, 8), elr=(2,)), one)
