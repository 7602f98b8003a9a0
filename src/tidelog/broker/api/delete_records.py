"""DeleteRecords (21), versions 0 to 2: moves the log start up; -1 means up to the high watermark.

Answered when no live replica has the records any more (the low watermark), or when time is up. A follower hears of the
new start with the answer to its fetch, and tells its own with the next one.
"""

import asyncio
from dataclasses import dataclass

from tidelog.broker.appends import wake_followers
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.lookups import absent_partition_error
from tidelog.core.ids import LeaderEpoch, TopicPartition
from tidelog.metadata.names import is_internal
from tidelog.replication.partition import Partition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@dataclass(slots=True)
class _Waiting:
    """A partition whose leader has deleted and whose followers may not have."""

    partition: Partition
    epoch: LeaderEpoch
    required_offset: int
    result: DeleteRecordsPartitionResult


def handle(
    broker: Broker, ctx: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    for topic in request.topics:
        results = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(results)
        for item in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=item.partition_index, low_watermark=-1)
            results.partitions.append(result)
            try:
                waiting.append(_delete(broker, topic.name, item, result))
            except ApiError as error:
                result.error_code = error.code
    delayed = DelayedDelete(broker, response, waiting)
    cancel = broker.produce_purgatory.try_complete_else_watch(
        delayed, (item.partition.topic_partition for item in waiting), request.timeout_ms / 1000
    )
    if cancel is None:
        return response
    # Nobody waits for the answer any more; the records are deleted all the same.
    forget = ctx.connection.on_close(cancel)
    delayed.future.add_done_callback(lambda _: forget())
    return delayed.future


def _delete(broker: Broker, topic: str, item: DeleteRecordsPartition, result: DeleteRecordsPartitionResult) -> _Waiting:
    if is_internal(topic):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic; its records cannot be deleted"
        )
    partition = broker.replicas.get(TopicPartition(topic, item.partition_index))
    if partition is None:
        raise ApiError(absent_partition_error(broker.image, topic, item.partition_index))
    if "delete" not in partition.config.cleanup_policy:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"{topic} is compacted; its records cannot be deleted (cleanup.policy=compact)"
        )
    required_offset = partition.delete_records(item.offset)
    # A follower that waits for records is told of the new start now.
    wake_followers(broker, partition.topic_partition)
    return _Waiting(partition, partition.leader_epoch, required_offset, result)


class DelayedDelete:
    """Waits until the low watermark of each partition has reached what was asked for."""

    __slots__ = ("_response", "_waiting", "future")

    def __init__(self, broker: Broker, response: DeleteRecordsResponse, waiting: list[_Waiting]) -> None:
        self._response = response
        self._waiting = waiting
        self.future: asyncio.Future[DeleteRecordsResponse] = broker.loop.create_future()

    def try_complete(self) -> bool:
        self._waiting = [item for item in self._waiting if not _is_done(item)]
        if self._waiting:
            return False
        self._answer()
        return True

    def expire(self) -> None:
        for item in self._waiting:
            item.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._answer()

    def _answer(self) -> None:
        if not self.future.done():
            self.future.set_result(self._response)


def _is_done(item: _Waiting) -> bool:
    try:
        item.partition.require_leader(item.epoch)
        low_watermark = item.partition.low_watermark()
    except ApiError as error:
        # Another epoch of our own is another leader's, too: whether its followers delete is not known here.
        moved = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
        item.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in moved else error.code
        return True
    if low_watermark < item.required_offset:
        return False
    item.result.low_watermark = low_watermark
    return True
