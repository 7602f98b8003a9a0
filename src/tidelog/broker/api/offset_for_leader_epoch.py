"""OffsetForLeaderEpoch (23), versions 2 to 4: where an epoch ended in this leader's log (E2), fenced as F5 says."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.lookups import absent_partition_error
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(broker: Broker, ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(broker, topic.topic, item) for item in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, topic: str, item: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=item.partition)
    try:
        partition = broker.replicas.get(TopicPartition(topic, item.partition))
        if partition is None:
            raise ApiError(absent_partition_error(broker.image, topic, item.partition))
        partition.require_leader(item.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(item.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer
