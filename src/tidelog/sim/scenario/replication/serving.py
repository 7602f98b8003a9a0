"""How a leader answers its followers: at once, and naming everything.

The wait for news (F3) and the sessions (F7) are the shell's, and would only hide what a story is about.
"""

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.replication.manager import ReplicaManager
from tidelog.replication.partition import Partition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

_LATEST = -1


def answer_fetch(replicas: ReplicaManager, image: ClusterImage, request: FetchRequest, now_s: float) -> FetchResponse:
    """Whoever waits for what the fetch tells of the follower looks again by itself in a story."""
    response = FetchResponse()
    for topic in request.topics:
        known = image.topic_by_id(topic.topic_id)
        answers = FetchableTopicResponse(topic_id=topic.topic_id)
        response.responses.append(answers)
        for ask in topic.partitions:
            try:
                if known is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
                partition = replicas.partition(TopicPartition(known.name, ask.partition))
                answers.partitions.append(_answer(partition, request, ask, now_s))
            except ApiError as error:
                answers.partitions.append(
                    PartitionData(
                        partition_index=ask.partition,
                        error_code=error.code,
                        high_watermark=-1,
                        aborted_transactions=None,
                        records=b"",
                    )
                )
    return response


def _answer(partition: Partition, request: FetchRequest, ask: FetchPartition, now_s: float) -> PartitionData:
    follower = request.replica_state
    read = partition.read_for_follower(
        follower.replica_id,
        follower.replica_epoch,
        ask.fetch_offset,
        ask.partition_max_bytes,
        current_leader_epoch=ask.current_leader_epoch,
        last_fetched_epoch=ask.last_fetched_epoch,
        min_one=True,
    )
    answer = PartitionData(partition_index=ask.partition, aborted_transactions=None, records=b"")
    if read.diverging_epoch is not None:
        epoch, end_offset = read.diverging_epoch
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    else:
        partition.on_follower_fetch(
            follower.replica_id,
            follower.replica_epoch,
            ask.fetch_offset,
            ask.log_start_offset,
            ask.current_leader_epoch,
            now_s,
        )
        # It may have moved by this very fetch, and the follower hears of it with the answer.
        read.take_offsets(partition.log)
        answer.records = partition.read_slice(read.slice) if read.slice.size else b""
    answer.high_watermark = read.high_watermark
    answer.last_stable_offset = read.last_stable_offset
    answer.log_start_offset = read.log_start_offset
    return answer


def answer_offsets(replicas: ReplicaManager, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """For a follower that lost its way (F6): where the log ends or begins."""
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        for ask in topic.partitions:
            answers.partitions.append(_offset(replicas, TopicPartition(topic.name, ask.partition_index), ask))
    return response


def _offset(
    replicas: ReplicaManager, topic_partition: TopicPartition, ask: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=ask.partition_index)
    try:
        partition = replicas.partition(topic_partition)
        partition.require_leader(ask.current_leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
        return answer
    log = partition.log
    answer.offset = log.log_end_offset if ask.timestamp == _LATEST else log.log_start_offset
    return answer
