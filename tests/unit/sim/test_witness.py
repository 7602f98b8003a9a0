"""Elections are changes of leader, of whatever topic has the name now."""

import json
import uuid
from typing import Any

import pytest

from tidelog.metadata.delta import MetadataDelta, TopicDelta
from tidelog.metadata.image import EMPTY_IMAGE, LeaderRecoveryState, PartitionRegistration, TopicImage
from tidelog.sim.loop import VirtualLoop
from tidelog.sim.trace import Trace
from tidelog.sim.witness import Witness

FIRST = PartitionRegistration(
    replicas=(1, 2, 3), directories=(), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0
)


class Told:
    """A witness, and what it told of."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.witness = Witness(Trace(VirtualLoop(), lambda: 0, lambda line: self.lines.append(json.loads(line))))

    def publish(self, topic_id: int, partition: PartitionRegistration) -> None:
        topic = TopicImage("orders", uuid.UUID(int=topic_id), {0: partition})
        delta = TopicDelta(None, topic, topic.partitions)
        self.witness(
            1, EMPTY_IMAGE, MetadataDelta(before=EMPTY_IMAGE, after=EMPTY_IMAGE, topics={topic.topic_id: delta})
        )


@pytest.fixture
def told() -> Told:
    return Told()


def test_neither_a_new_partition_nor_a_lost_leader_is_an_election(told: Told) -> None:
    states = [
        FIRST,
        FIRST._replace(isr=(1, 3), partition_epoch=1),
        FIRST._replace(isr=(3,), leader=3, leader_epoch=1, partition_epoch=2),
        FIRST._replace(isr=(3,), leader=-1, leader_epoch=2, partition_epoch=3),
        FIRST._replace(isr=(3,), leader=3, leader_epoch=3, partition_epoch=4),
        # The same leader, which has given up a replica that is reassigned.
        FIRST._replace(isr=(3,), leader=3, leader_epoch=4, partition_epoch=5),
        FIRST._replace(
            isr=(2,),
            leader=2,
            leader_epoch=5,
            partition_epoch=6,
            leader_recovery_state=LeaderRecoveryState.RECOVERING,
        ),
    ]
    for state in states:
        told.publish(7, state)
        # Another node publishes it later.
        told.publish(7, state)
    assert (told.witness.elections, told.witness.unclean) == (3, 1)
    assert [line["event"] for line in told.lines] == ["leader", "isr", *["leader"] * 4, "unclean"]


def test_who_has_not_recovered_from_an_unclean_election_yet_is_elected_again_as_any_other(told: Told) -> None:
    recovering = FIRST._replace(isr=(2,), leader=2, leader_recovery_state=LeaderRecoveryState.RECOVERING)
    for state in (
        FIRST._replace(isr=(), elr=(), leader=-1),
        recovering._replace(leader_epoch=1, partition_epoch=1),
        recovering._replace(isr=(), elr=(2,), leader=-1, leader_epoch=2, partition_epoch=2),
        recovering._replace(leader_epoch=3, partition_epoch=3),
    ):
        told.publish(7, state)
    assert (told.witness.elections, told.witness.unclean) == (2, 1)


def test_a_topic_made_anew_is_told_of_from_its_first_epoch(told: Told) -> None:
    told.publish(7, FIRST._replace(leader_epoch=9, partition_epoch=12))
    told.publish(8, FIRST)
    told.publish(8, FIRST._replace(isr=(2,), leader=2, leader_epoch=1, partition_epoch=1))
    # Of the old one a node may hear only now.
    told.publish(7, FIRST._replace(leader_epoch=9, partition_epoch=11))
    assert [line["epoch"] for line in told.lines] == [9, 0, 1]
    assert told.witness.elections == 1
