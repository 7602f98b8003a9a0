"""What a Fetch is answered with, partition by partition, once it is known what there is to read."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.endpoints import endpoint_of
from tidelog.broker.fetch_sessions import FetchSession, WantedPartition
from tidelog.replication.partition import Partition
from tidelog.replication.reading import Read
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

LEADERS_SINCE: Final = 12
LEADER_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class Found:
    """One partition of a fetch: what there is to read, or why there is nothing."""

    wanted: WantedPartition
    partition: Partition | None
    read: Read | None
    error: ApiError | None
    # What was read already, away from the event loop.
    records: bytes | None = None


def build_response(
    broker: Broker, ctx: RequestContext, session: FetchSession | None, found: list[Found], incremental: bool
) -> FetchResponse:
    """Reads the bytes, one `pread` per slice. An incremental answer leaves out what is no news."""
    response = FetchResponse(session_id=session.session_id if session else 0)
    topics: dict[tuple[str, UUID], FetchableTopicResponse] = {}
    for entry in found:
        answer = _partition_answer(broker, ctx, response, entry)
        item = entry.wanted
        if session is not None:
            if not item.news(answer) and incremental:
                continue
            if answer.records:
                session.move_back(item)
        topic = topics.get((item.topic, item.topic_id))
        if topic is None:
            topic = FetchableTopicResponse(topic=item.topic, topic_id=item.topic_id)
            topics[item.topic, item.topic_id] = topic
            response.responses.append(topic)
        topic.partitions.append(answer)
    return response


def _partition_answer(broker: Broker, ctx: RequestContext, response: FetchResponse, entry: Found) -> PartitionData:
    read = entry.read
    number = entry.wanted.ask.partition
    if read is not None:
        try:
            records = _records(entry, read)
        except ApiError as error:
            entry.error = error
        else:
            answer = PartitionData(
                partition_index=number,
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                records=records,
                aborted_transactions=None
                if read.aborted is None
                else [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first, _, _ in read.aborted],
            )
            if read.diverging_epoch is not None:
                epoch, end_offset = read.diverging_epoch
                answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return answer
    code = entry.error.code if entry.error else ErrorCode.UNKNOWN_SERVER_ERROR
    answer = PartitionData(
        partition_index=number, error_code=code, high_watermark=-1, aborted_transactions=None, records=b""
    )
    _name_leader(broker, ctx, response, entry, answer)
    return answer


def _records(entry: Found, read: Read) -> bytes:
    if entry.records is not None:
        return entry.records
    return entry.partition.read_slice(read.slice) if read.slice.size and entry.partition else b""


def _name_leader(
    broker: Broker, ctx: RequestContext, response: FetchResponse, entry: Found, answer: PartitionData
) -> None:
    if answer.error_code not in LEADER_MOVED or entry.partition is None or ctx.api_version < LEADERS_SINCE:
        return
    leader, epoch = entry.partition.leader_id, entry.partition.leader_epoch
    answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    endpoint = endpoint_of(broker.image, leader, ctx.listener_name)
    if endpoint is not None and all(known.node_id != leader for known in response.node_endpoints):
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
        )
