"""A follower outside of its leader's log (F6): it asks where that ends and begins, and cuts its own to fit.

First the end, then, if ours is not beyond it, the start. As a replica (`replica_id`) it is told the log end offset, not
the high watermark. A log that was cut below its own start has nothing left, and begins where the leader's does: if it
went on from the cut it would lack records that the leader has, and count as complete.
"""

from collections.abc import Iterable, Iterator, Mapping

from tidelog.core.ids import BrokerId, TopicPartition
from tidelog.replication import following
from tidelog.replication.fetch_session import error_name
from tidelog.replication.fetcher_state import EARLIEST, LATEST, Followed, Outcome
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


def build_request(asking: Iterable[Followed], local_id: BrokerId) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for followed in asking:
        assert followed.asks_for is not None, followed
        name, number = followed.partition.topic_partition
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
            ListOffsetsPartition(
                partition_index=number, current_leader_epoch=followed.leader_epoch, timestamp=followed.asks_for
            )
        )
    return ListOffsetsRequest(replica_id=local_id, topics=list(topics.values()))


def on_response(
    followed_by_name: Mapping[TopicPartition, Followed],
    leader_id: int,
    request: ListOffsetsRequest,
    response: ListOffsetsResponse,
    outcome: Outcome,
    now_ms: int,
) -> Iterator[tuple[Followed, str]]:
    """Cuts what has to be; yields whoever has to wait before it asks again, and why."""
    answers = {
        TopicPartition(topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }
    for topic in request.topics:
        for asked in topic.partitions:
            name = TopicPartition(topic.name, asked.partition_index)
            followed = followed_by_name.get(name)
            if followed is None or not _still_asks(followed, asked):
                continue
            answer = answers.get(name)
            if answer is None:
                yield followed, "the leader did not answer ListOffsets"
                continue
            try:
                problem = _on_answer(followed, leader_id, asked.timestamp, answer, outcome, now_ms)
            except (ApiError, DiskError) as error:
                problem = str(error)
            if problem is not None:
                yield followed, problem


def _still_asks(followed: Followed, asked: ListOffsetsPartition) -> bool:
    return (
        followed.is_current()
        and followed.leader_epoch == asked.current_leader_epoch
        and followed.asks_for == asked.timestamp
    )


def _on_answer(
    followed: Followed,
    leader_id: int,
    asked_for: int,
    answer: ListOffsetsPartitionResponse,
    outcome: Outcome,
    now_ms: int,
) -> str | None:
    """What is wrong, if anything is."""
    partition = followed.partition
    end = partition.log.log_end_offset
    if answer.error_code != ErrorCode.NONE:
        return f"the leader answered ListOffsets with {error_name(answer.error_code)}"
    if answer.offset < 0:
        return f"the leader answered ListOffsets with offset {answer.offset}"
    if asked_for == LATEST and answer.offset >= end:
        followed.asks_for = EARLIEST
        return None
    followed.asks_for = None
    if asked_for == LATEST:
        reason = f"the log of leader {leader_id} ends at {answer.offset}"
        # Whether the two agree up to there, the next fetch tells.
        start = partition.log.log_start_offset
        outcome.add(following.cut(partition, answer.offset, reason, now_ms))
        followed.cut_below(start)
        return None
    is_empty = partition.log.log_start_offset == end
    if answer.offset > end or (is_empty and answer.offset < end):
        outcome.add(following.start_anew(partition, leader_id, answer.offset, now_ms))
        return None
    if is_empty and answer.offset == end:
        return None
    return f"offset {end} is out of range, although the leader's log begins at {answer.offset}"
