"""DescribeTopicPartitions (75), version 0 (KIP-966): partitions with ELR, in pages with a cursor."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.replica_lists import offline_replicas, visible_leader
from tidelog.metadata.image import PartitionRegistration
from tidelog.metadata.names import is_internal, why_illegal
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)


def handle(
    broker: Broker, ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = broker.image
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics_by_name.get(name)
        if topic is None:
            if request.topics:
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if why_illegal(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = DescribeTopicPartitionsResponseTopic(
            name=name, topic_id=topic.topic_id, is_internal=is_internal(name)
        )
        for number in sorted(topic.partitions):
            if number < first:
                continue
            if limit == 0:
                response.next_cursor = ResponseCursor(topic_name=name, partition_index=number)
                break
            described.partitions.append(_partition(broker, number, topic.partitions[number]))
            limit -= 1
        if described.partitions:
            response.topics.append(described)
        if response.next_cursor is not None:
            break
    return response


def _partition(
    broker: Broker, number: int, registration: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    leader = visible_leader(broker.image, registration)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=leader,
        leader_epoch=registration.leader_epoch,
        replica_nodes=list(registration.replicas),
        isr_nodes=list(registration.isr),
        eligible_leader_replicas=list(registration.elr),
        last_known_elr=list(registration.last_known_elr),
        offline_replicas=offline_replicas(broker.image, registration),
    )
