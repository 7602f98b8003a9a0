"""DeleteRecords (21), versions 0 to 2: moves the log start up; -1 means up to the high watermark."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.lookups import absent_partition_error
from tidelog.core.ids import TopicPartition
from tidelog.replication.manager import is_internal
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(broker: Broker, ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(broker, topic.name, item) for item in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, item: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=item.partition_index, low_watermark=-1)
    try:
        if is_internal(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        partition = broker.replicas.get(TopicPartition(topic, item.partition_index))
        if partition is None:
            raise ApiError(absent_partition_error(broker.image, topic, item.partition_index))
        if "delete" not in partition.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted, its records are not deleted")
        result.low_watermark = partition.delete_records(item.offset)
    except ApiError as error:
        result.error_code = error.code
    return result
