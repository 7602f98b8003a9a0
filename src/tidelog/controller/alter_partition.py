"""AlterPartition: the leader of a partition proposes an ISR, the controller decides (rules C4, C5, C6, C8)."""

from collections.abc import Sequence

from tidelog.controller.brokers import check_broker_epoch
from tidelog.controller.decision import Decision, Situation
from tidelog.controller.election_events import election_events
from tidelog.controller.partition_drafts import PartitionDrafts
from tidelog.controller.partition_targets import Target
from tidelog.controller.partitions import is_online
from tidelog.metadata.image import ClusterImage, LeaderRecoveryState, PartitionRegistration, TopicImage
from tidelog.metadata.records import LEADER_UNCHANGED
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)


def alter_partition(situation: Situation, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    """Each partition is decided by itself; a sender of another broker epoch is refused as a whole."""
    check_broker_epoch(situation.image, request.broker_id, request.broker_epoch)
    drafts = PartitionDrafts(situation)
    topics = [
        ResponseTopicData(topic_id=topic.topic_id, partitions=_topic(situation.image, request.broker_id, topic, drafts))
        for topic in request.topics
    ]
    return Decision(
        response=AlterPartitionResponse(topics=topics),
        records=drafts.records,
        atomic=False,
        events=election_events(drafts.changes, "reassignment completed"),
    )


def _topic(image: ClusterImage, sender: int, wanted: TopicData, drafts: PartitionDrafts) -> list[ResponsePartitionData]:
    topic = image.topic_by_id(wanted.topic_id)
    if topic is None:
        return [_refused(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for each in wanted.partitions]
    return [_partition(image, sender, topic, each, drafts) for each in wanted.partitions]


def _partition(
    image: ClusterImage, sender: int, topic: TopicImage, wanted: PartitionData, drafts: PartitionDrafts
) -> ResponsePartitionData:
    index = wanted.partition_index
    partition = drafts.partition(topic, index)
    if partition is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    proposed = _proposed(wanted)
    error = _check(image, sender, partition, wanted, proposed)
    if error is not ErrorCode.NONE:
        return _refused(index, error)
    target = Target(
        isr=tuple(member.broker_id for member in proposed),
        recovery_state=LeaderRecoveryState(wanted.leader_recovery_state),
        election=drafts.rules(topic).election,
    )
    change = drafts.change(topic, index, target)
    if change is not None and change.record.leader not in (LEADER_UNCHANGED, sender):
        # It completed a reassignment after which another one leads: decided, and yet not what the sender asked for.
        return _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    after = drafts.partition(topic, index)
    assert after is not None
    return ResponsePartitionData(
        partition_index=index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def _proposed(wanted: PartitionData) -> list[BrokerState]:
    """Version 2 names brokers without their epochs; -1 stands for any."""
    return wanted.new_isr_with_epochs or [BrokerState(broker_id=each, broker_epoch=-1) for each in wanted.new_isr]


def _check(
    image: ClusterImage,
    sender: int,
    partition: PartitionRegistration,
    wanted: PartitionData,
    proposed: Sequence[BrokerState],
) -> ErrorCode:
    """In the order of C4, which leaders rely on: what they do about an error depends on what it rules out."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # It knows of more than this controller does: there must be another one.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _valid_isr(partition, [member.broker_id for member in proposed]):
        return ErrorCode.INVALID_REQUEST
    if not _valid_recovery_state(partition, wanted.leader_recovery_state, len(proposed)):
        return ErrorCode.INVALID_REQUEST
    if not all(_eligible(image, partition, member) for member in proposed):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _valid_isr(partition: PartitionRegistration, isr: Sequence[int]) -> bool:
    members = set(isr)
    return len(members) == len(isr) and members <= set(partition.replicas) and partition.leader in members


def _valid_recovery_state(partition: PartitionRegistration, state: int, members: int) -> bool:
    """While it recovers the leader is alone, and only an election makes it recover (C6)."""
    if state == LeaderRecoveryState.RECOVERING:
        return members == 1 and partition.leader_recovery_state is LeaderRecoveryState.RECOVERING
    return state == LeaderRecoveryState.RECOVERED


def _eligible(image: ClusterImage, partition: PartitionRegistration, member: BrokerState) -> bool:
    broker = image.brokers.get(member.broker_id)
    return (
        broker is not None
        and broker.active
        and member.broker_epoch in (-1, broker.epoch)
        and is_online(broker, partition.directory_of(member.broker_id))
    )


def _refused(index: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=error)
