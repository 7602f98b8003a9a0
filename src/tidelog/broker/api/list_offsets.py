"""ListOffsets (2), versions 1 to 11: earliest, latest, by timestamp, and KIP-734's newest timestamp (v7).

From v2 `read_committed` ends at the last stable offset; W5 after an election; without remote storage the earliest
local offset (v8) is the log start and there is no tiered offset (v9).
"""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.lookups import DEBUGGING_REPLICA, absent_partition_error
from tidelog.core.ids import TopicPartition
from tidelog.replication.partition import Partition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
# Newest timestamp (KIP-734), earliest local and tiered (KIP-405, KIP-1005), waiting for upload (KIP-1023).
SINCE = {-3: 7, -4: 8, -5: 9, -6: 11}
OFFSET_NOT_AVAILABLE_SINCE = 5


def handle(broker: Broker, ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    asked: set[tuple[str, int]] = set()
    for topic in request.topics:
        for item in topic.partitions:
            key = (topic.name, item.partition_index)
            if key in asked:
                return _refuse_all(request)
            asked.add(key)
    for topic in request.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        for item in topic.partitions:
            answers.partitions.append(_answer(broker, ctx, topic.name, item, request))
    return response


def _refuse_all(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """A partition named twice: Kafka refuses the request."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=item.partition_index, error_code=ErrorCode.INVALID_REQUEST
                    )
                    for item in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    broker: Broker, ctx: RequestContext, topic: str, item: ListOffsetsPartition, request: ListOffsetsRequest
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=item.partition_index)
    try:
        partition = broker.replicas.get(TopicPartition(topic, item.partition_index))
        if partition is None:
            raise ApiError(absent_partition_error(broker.image, topic, item.partition_index))
        if request.replica_id == DEBUGGING_REPLICA and item.timestamp == LATEST:
            # A tool that looks at one replica, leader or not: its own end.
            answer.offset, answer.leader_epoch = partition.log.log_end_offset, partition.leader_epoch
            return answer
        if request.replica_id == DEBUGGING_REPLICA and item.timestamp == EARLIEST:
            partition.require_replica(item.current_leader_epoch)
        else:
            partition.require_leader(item.current_leader_epoch)
        if request.replica_id >= 0 and item.timestamp == LATEST:
            # A follower that lost its way asks for the log's end, of which the high watermark tells nothing (F6).
            answer.offset, answer.leader_epoch = partition.log.log_end_offset, partition.leader_epoch
            return answer
        if ctx.api_version < SINCE.get(item.timestamp, 0):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{item.timestamp} needs v{SINCE[item.timestamp]}")
        answer.offset, answer.timestamp, answer.leader_epoch = _find(partition, item.timestamp, request.isolation_level)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and ctx.api_version < OFFSET_NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        answer.error_code = code
    return answer


def _find(partition: Partition, timestamp: int, isolation_level: int) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch); (-1, -1, -1) when no record is that late."""
    log = partition.log
    match timestamp:
        case -1:  # latest
            return partition.latest_offset(isolation_level), -1, partition.leader_epoch
        case -2 | -4:  # earliest, earliest local
            epoch = log.epochs.epoch_for_offset(log.log_start_offset)
            return log.log_start_offset, -1, -1 if epoch is None else epoch
        case -5 | -6:  # tiered, waiting for upload
            return -1, -1, -1
        case -3:  # newest timestamp
            found = partition.offset_for_max_timestamp()
        case _:
            if timestamp < 0:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp} is not a timestamp this broker knows")
            found = partition.offset_for_timestamp(timestamp)
    if found is not None and found.offset < partition.readable_end(isolation_level):
        return found
    # A record that no reader may see yet is not told about, and right after an election it may be one that was read.
    partition.latest_offset(isolation_level)
    return -1, -1, -1
