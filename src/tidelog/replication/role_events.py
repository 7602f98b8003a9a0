"""What an operator is told when a replica's role changes, with the offsets at which it did (O2)."""

from tidelog.core.event import Event
from tidelog.core.events import FollowingStarted, LeadershipTaken, UncleanLeaderStarted
from tidelog.core.ids import TopicPartition
from tidelog.replication.isr import Committed
from tidelog.replication.roles import Follower, Leader
from tidelog.storage.log import Log


def leads(topic_partition: TopicPartition, leader: Leader, log: Log) -> Event:
    """The first of an epoch. After an unclean election it is a warning (C6)."""
    if isinstance(leader.isr_state, Committed) and leader.isr_state.recovering:
        return UncleanLeaderStarted(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=leader.epoch,
            epoch_start_offset=leader.epoch_start_offset,
            high_watermark=log.high_watermark,
        )
    return leadership(topic_partition, leader, log)


def leadership(topic_partition: TopicPartition, leader: Leader, log: Log) -> LeadershipTaken:
    return LeadershipTaken(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        leader_epoch=leader.epoch,
        epoch_start_offset=leader.epoch_start_offset,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        isr=tuple(sorted(leader.isr_state.isr)),
    )


def follows(topic_partition: TopicPartition, follower: Follower, log: Log) -> Event:
    return FollowingStarted(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        leader=follower.leader,
        leader_epoch=follower.epoch,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
    )
