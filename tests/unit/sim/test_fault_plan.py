"""Plans are drawn from the seed alone, and the budget keeps what the invariants assume."""

import uuid
from collections.abc import Sequence

import pytest

from tidelog.metadata.image import (
    NO_TOPICS_BY_ID,
    BrokerRegistration,
    ClusterImage,
    PartitionRegistration,
    TopicImage,
)
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.kinds import KINDS, PROFILES
from tidelog.sim.faults.plan import SPARE_FAULTS, draw_plan


def test_a_plan_follows_from_its_seed() -> None:
    assert draw_plan(1, KINDS) == draw_plan(1, KINDS)
    assert draw_plan(1, KINDS) != draw_plan(2, KINDS)
    plan = draw_plan(3, KINDS, seconds=1000, mean_gap_s=0.5)
    assert 1700 < len(plan) < 2300
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    assert {fault.kind for fault in plan} == set(KINDS)


def test_spare_faults_come_after_the_time() -> None:
    plan = draw_plan(1, KINDS, seconds=20)
    assert [fault for fault in plan if fault.spare] == [fault for fault in plan if fault.at_s >= 20]
    assert sum(fault.spare for fault in plan) == SPARE_FAULTS
    assert [fault.number for fault in plan] == list(range(len(plan)))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_draws_its_own_kinds_only(profile: str) -> None:
    drawn = {fault.kind for fault in draw_plan(1, KINDS, profiles=(profile,), seconds=500)}
    assert drawn == {kind.name for kind in KINDS.values() if kind.profile == profile}


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="all, control, disk, network, process, time"):
        draw_plan(1, KINDS, profiles=("weather",))


def image(isr: Sequence[int], epochs: dict[int, int], replicas: Sequence[int] = (1, 2, 3)) -> ClusterImage:
    partition = PartitionRegistration(
        replicas=tuple(replicas), directories=(), isr=tuple(isr), leader=isr[0] if isr else -1
    )
    topic = TopicImage("orders", uuid.UUID(int=1), {0: partition})
    brokers = {
        broker: BrokerRegistration(
            broker_id=broker, epoch=epoch, incarnation_id=uuid.UUID(int=epoch), listeners=(), fenced=False
        )
        for broker, epoch in epochs.items()
    }
    return ClusterImage(topics_by_id=NO_TOPICS_BY_ID.updated({topic.topic_id: topic}), brokers=brokers)


def test_one_less_than_min_isr_may_lose_data_until_re_admitted() -> None:
    budget = Budget(lambda image, topic: 2)
    before = image([1, 2, 3], {1: 10, 2: 11, 3: 12})
    assert budget.may_lose(1, before)
    budget.lose(1, before)
    assert not budget.may_lose(2, before)
    # The same node again: nothing more is lost.
    assert budget.may_lose(1, before)
    # Out of the ISR, back in it, but not yet under a new registration.
    assert not budget.may_lose(2, image([2, 3], {1: 10, 2: 11, 3: 12}))
    assert not budget.may_lose(2, image([2, 3], {1: 20, 2: 11, 3: 12}))
    assert budget.may_lose(2, image([1, 2, 3], {1: 20, 2: 11, 3: 12}))


def test_a_replica_nobody_backs_up_loses_nothing() -> None:
    assert not Budget(lambda image, topic: 1).may_lose(1, image([1, 2, 3], {}))
    assert not Budget(lambda image, topic: 2).may_lose(1, image([1], {}, [1]))
    assert Budget(lambda image, topic: 2).may_lose(4, image([1, 2, 3], {}))


def test_an_end_without_order_counts_until_the_node_is_re_admitted() -> None:
    budget = Budget(lambda image, topic: 2)
    before = image([1, 2], {1: 10, 2: 11, 3: 12})
    assert not budget.leaves_nobody(1, before)
    assert not budget.leaves_nobody(3, before)
    budget.end_unclean(1, before)
    assert budget.leaves_nobody(2, before)
    assert not budget.leaves_nobody(2, image([1, 2, 3], {1: 20, 2: 11, 3: 12}))
