"""DescribeLogDirs (35), versions 1 to 5: each directory with its partitions and sizes; free space from v4.

With our own tag in the request (v2) also what each replica knows of itself and its followers (decision 12).
"""

from collections.abc import Iterable

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.replica_state import state_of
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(broker: Broker, ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    response = DescribeLogDirsResponse()
    for directory in broker.logs.directories:
        if not broker.logs.is_online(directory):
            response.results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory))
            continue
        total, usable = broker.logs.space(directory)
        response.results.append(
            DescribeLogDirsResult(
                log_dir=directory,
                topics=_topics(broker, directory, wanted, with_state=request.include_replica_state),
                total_bytes=total,
                usable_bytes=usable,
            )
        )
    return response


def _topics(
    broker: Broker, directory: str, wanted: Iterable[TopicPartition] | None, *, with_state: bool
) -> list[DescribeLogDirsTopic]:
    chosen = None if wanted is None else set(wanted)
    topics: dict[str, DescribeLogDirsTopic] = {}
    now_s = broker.loop.time()
    for partition in sorted(broker.replicas, key=lambda item: item.topic_partition):
        name, number = partition.topic_partition
        if chosen is not None and partition.topic_partition not in chosen:
            continue
        if broker.logs.directory_of(partition.log.dir) != directory:
            continue
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=number,
                partition_size=partition.log.size_bytes,
                offset_lag=max(0, partition.log.high_watermark - partition.log.log_end_offset),
                replica_state=state_of(partition, now_s) if with_state else None,
            )
        )
    return list(topics.values())
