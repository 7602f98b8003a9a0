"""ElectionAllowed: an unclean election ends all promises, so it has to have had a reason."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from tidelog.core.config.node import NodeConfig
from tidelog.metadata.features import ELR_VERSION
from tidelog.metadata.image import (
    NO_CONFIGS,
    NO_TOPICS_BY_ID,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    LeaderRecoveryState,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.metadata import ElectionAllowed, Rules, is_unclean
from tidelog.sim.cluster import properties_of, roles_of

NODE, _ = NodeConfig.parse(properties_of(1, roles_of(3)))
ALLOWED = {"unclean.leader.election.enable": "true"}


def partition(leader: int, isr: Sequence[int], epoch: int, **fields: Any) -> PartitionRegistration:
    return PartitionRegistration(
        (1, 2, 3), (), tuple(isr), leader=leader, leader_epoch=epoch, partition_epoch=epoch, **fields
    )


def elected(leader: int, epoch: int = 5) -> PartitionRegistration:
    return partition(leader, [leader], epoch, leader_recovery_state=LeaderRecoveryState.RECOVERING)


def image(
    registration: PartitionRegistration,
    *,
    up: Sequence[int],
    config: dict[str, str] | None = None,
    epochs: dict[int, int] | None = None,
) -> ClusterImage:
    topic = TopicImage("orders", UUID(int=1), {0: registration})
    brokers = {
        number: BrokerRegistration(
            broker_id=number,
            epoch=(epochs or {}).get(number, 10),
            incarnation_id=UUID(int=number),
            listeners=(),
            fenced=number not in up,
        )
        for number in (1, 2, 3)
    }
    return ClusterImage(
        brokers=brokers,
        topics_by_id=NO_TOPICS_BY_ID.updated({topic.topic_id: topic}),
        configs_by_resource=NO_CONFIGS.updated({ConfigResource(ResourceType.TOPIC, "orders"): config or {}}),
        features={ELR_VERSION: 1},
    )


def judge(
    before: ClusterImage,
    after: ClusterImage,
    *,
    unclean: Sequence[int] = (),
    asked: bool = False,
    led: int | None = None,
) -> None:
    """`led` had led until `before`, and lost what it had with everybody else."""
    lost = [*unclean]
    check = ElectionAllowed(Rules(NODE), lambda broker: broker.broker_id in lost, lambda: asked)
    if led is not None:
        registered = before.topics_by_id[UUID(int=1)].partitions[0]
        lost = [1, 2, 3]
        earlier = partition(led, [led], registered.leader_epoch - 1)
        check.on_metadata(image(earlier, up=[led], epochs=dict.fromkeys(lost, 1)), before)
        lost = [*unclean]
    check.on_metadata(before, after)


def test_whoever_led_last_may_lead_when_nobody_is_known_to_have_everything() -> None:
    before = partition(-1, [], 4, last_known_elr=(2,))
    judge(image(before, up=[1]), image(elected(2), up=[1, 2]), led=2)
    with pytest.raises(InvariantBroken, match="broker 1 leads without a permitted unclean election"):
        judge(image(before, up=[2]), image(elected(1), up=[1, 2]), led=2)


def test_who_led_last_is_not_what_the_metadata_says() -> None:
    before = partition(-1, [], 4, last_known_elr=(3,))
    with pytest.raises(InvariantBroken, match="broker 3 leads without a permitted unclean election"):
        judge(image(before, up=[1]), image(elected(3), up=[1, 3]), led=2)


def test_nobody_leaves_both_sets_under_the_minimum_who_lost_nothing() -> None:
    config = {"min.insync.replicas": "2"}
    both = image(partition(1, [1, 2], 4), up=[1, 2], config=config)
    kept = image(partition(1, [1], 5, elr=(2,)), up=[1], config=config)
    judge(both, kept)
    gone = partition(1, [1], 5)
    with pytest.raises(InvariantBroken, match="broker 2 left both ISR and ELR"):
        judge(both, image(gone, up=[1], config=config))
    # It restarted, and lost nothing by that, or may have.
    restarted = image(gone, up=[1, 2], config=config, epochs={2: 11})
    with pytest.raises(InvariantBroken, match="broker 2 left both ISR and ELR"):
        judge(both, restarted)
    judge(both, restarted, unclean=[2])
    # With as many as are needed nobody is remembered; with another minimum the sets are another's.
    judge(both, image(gone, up=[1]))
    judge(
        image(partition(1, [1, 2], 4), up=[1, 2], config={"min.insync.replicas": "1"}),
        image(gone, up=[1], config=config),
    )


def test_not_before_a_live_member_of_the_elr() -> None:
    """KIP-966: whoever led last stands behind those that are known to have everything."""
    before = partition(-1, [], 4, elr=(3,), last_known_elr=(2,))
    for asked in (False, True):
        with pytest.raises(
            InvariantBroken, match=r"broker 2 leads by an unclean election, although \[3\] are complete"
        ):
            judge(image(before, up=[2]), image(elected(2), up=[2, 3], config=ALLOWED), asked=asked)
    with pytest.raises(InvariantBroken, match="broker 2 leads without a permitted unclean election"):
        # It is down, but it is known to have everything: somebody has to decide that it is not waited for.
        judge(image(before, up=[]), image(elected(2), up=[2]))


def test_nor_while_a_member_of_the_isr_can_lead() -> None:
    before = partition(1, [1, 2], 4)
    with pytest.raises(InvariantBroken, match=r"broker 3 leads by an unclean election, although \[2\] are complete"):
        judge(image(before, up=[1, 2, 3], config=ALLOWED), image(elected(3), up=[2, 3], config=ALLOWED))


def test_the_config_or_a_request_allow_it_when_nobody_else_can() -> None:
    before = partition(-1, [], 4, elr=(2,))
    gone, there = image(before, up=[1]), image(elected(1), up=[1])
    with pytest.raises(InvariantBroken, match="without a permitted unclean election"):
        judge(gone, there)
    judge(gone, there, asked=True)
    judge(image(before, up=[1], config=ALLOWED), there)
    judge(gone, image(elected(1), up=[1], config=ALLOWED))


def test_who_registers_after_an_unclean_end_has_left_the_elr_by_that() -> None:
    before = partition(-1, [], 4, elr=(2,), last_known_elr=(1,))
    after = image(elected(1), up=[1, 2], epochs={2: 11})
    judge(image(before, up=[]), after, unclean=[2], led=1)
    with pytest.raises(InvariantBroken, match=r"although \[2\] are complete"):
        judge(image(before, up=[]), after)


def test_who_has_not_recovered_yet_is_elected_again_as_any_other() -> None:
    """The state stays RECOVERING over a clean election: such a one is not unclean by that."""
    fenced = partition(-1, [], 6, elr=(2,), leader_recovery_state=LeaderRecoveryState.RECOVERING)
    again = elected(2, 7)
    assert not is_unclean(fenced, again)
    judge(image(fenced, up=[]), image(again, up=[2]))
    assert is_unclean(fenced, elected(1, 7))
    with pytest.raises(InvariantBroken, match="broker 1 leads without a permitted unclean election"):
        judge(image(fenced, up=[]), image(elected(1, 7), up=[1]))


def test_a_clean_election_is_nothing_to_it() -> None:
    judge(image(partition(1, [1, 2], 4), up=[1, 2]), image(partition(2, [2], 5, elr=(1,)), up=[2]))
