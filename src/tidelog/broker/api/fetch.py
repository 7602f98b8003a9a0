"""Fetch (1), versions 4 to 18.

F1 what a reader may see, F3 the long poll, F4 whole batches and one even when too large, F5 epoch fencing, F6 out of
range, F7 sessions (KIP-227); topic ids from v13; the current leader from v12 (KIP-951). Bytes are slices of segments.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.endpoints import endpoint_of
from tidelog.broker.fetch_sessions import FetchSession, WantedPartition
from tidelog.broker.lookups import absent_partition_error, topic_name
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.replication.partition import Partition, Read
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

TOPIC_IDS_SINCE = 13
LEADERS_SINCE = 12
# The smallest budget that still lets a partition's first batch be looked for.
NO_BYTES_LEFT = 0


def handle(broker: Broker, ctx: RequestContext, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
    uses_topic_ids = ctx.api_version >= TOPIC_IDS_SINCE
    name_of = partial(topic_name, broker.image)
    try:
        session, wanted = broker.fetch_sessions.begin(request, name_of, uses_topic_ids, broker.loop.time())
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    delayed = DelayedFetch(broker, ctx, request, session, wanted)
    if request.max_wait_ms <= 0 or not wanted:
        delayed.expire()
        return delayed.result()
    cancel = broker.fetch_purgatory.try_complete_else_watch(
        delayed, (TopicPartition(item.topic, item.ask.partition) for item in wanted), request.max_wait_ms / 1000
    )
    if cancel is None:
        return delayed.result()
    # A reader that went away is not waited for (and its answer not read from disk).
    forget = ctx.connection.on_close(cancel)
    delayed.future.add_done_callback(lambda _: forget())
    return delayed.future


@dataclass(slots=True)
class _Found:
    wanted: WantedPartition
    partition: Partition | None
    read: Read | None
    error: ApiError | None
    records: bytes | None = None


class DelayedFetch:
    """A fetch that waits for `min_bytes`, for an error, or for time (F3)."""

    __slots__ = ("_broker", "_ctx", "_request", "_session", "_wanted", "future")

    def __init__(
        self,
        broker: Broker,
        ctx: RequestContext,
        request: FetchRequest,
        session: FetchSession | None,
        wanted: list[WantedPartition],
    ) -> None:
        self._broker = broker
        self._ctx = ctx
        self._request = request
        self._session = session
        self._wanted = wanted
        self.future: asyncio.Future[FetchResponse] = broker.loop.create_future()

    def try_complete(self) -> bool:
        found, size, at_once = self._look()
        if size < self._request.min_bytes and not at_once:
            return False
        self._answer(found)
        return True

    def expire(self) -> None:
        found, _, _ = self._look()
        self._answer(found)

    def _look(self) -> tuple[list[_Found], int, bool]:
        """Finds what there is to read (no byte of it is read yet), its size, and whether waiting is pointless."""
        left = min(self._request.max_bytes, self._broker.config.fetch_max_bytes)
        found: list[_Found] = []
        size = 0
        at_once = False
        for item in self._wanted:
            entry = self._find(item, left, min_one=size == 0)
            found.append(entry)
            if entry.read is None or entry.read.diverging_epoch is not None:
                at_once = True
                continue
            size += entry.read.slice.size
            left -= entry.read.slice.size
        return found, size, at_once

    def _find(self, item: WantedPartition, left: int, min_one: bool) -> _Found:
        ask = item.ask
        if not item.topic:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return _Found(item, None, None, ApiError(code, f"no topic has the id {item.topic_id}"))
        partition = self._broker.replicas.get(TopicPartition(item.topic, ask.partition))
        if partition is None:
            code = absent_partition_error(self._broker.image, item.topic, ask.partition)
            return _Found(item, None, None, ApiError(code))
        if item.topic_id != partition.topic_id and item.topic_id != ZERO_UUID:
            # Deleted and made again under its name: what the reader knows of offsets is about another topic.
            code = ErrorCode.INCONSISTENT_TOPIC_ID
            return _Found(item, None, None, ApiError(code, f"{item.topic} has another id than {item.topic_id}"))
        replica_id = self._request.replica_id
        if self._request.replica_state.replica_id >= 0:
            replica_id = self._request.replica_state.replica_id
        try:
            if replica_id >= 0:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{replica_id} is no follower of {item.topic}")
            read = partition.read(
                ask.fetch_offset,
                max(NO_BYTES_LEFT, min(ask.partition_max_bytes, left)),
                isolation_level=self._request.isolation_level,
                current_leader_epoch=ask.current_leader_epoch,
                last_fetched_epoch=ask.last_fetched_epoch,
                min_one=min_one,
            )
        except ApiError as error:
            return _Found(item, partition, None, error)
        return _Found(item, partition, read, None)

    def result(self) -> FetchResponse | asyncio.Future[FetchResponse]:
        """The answer, or the promise of one that is still being read from the device."""
        return self.future.result() if self.future.done() else self.future

    def _answer(self, found: list[_Found]) -> None:
        cold = [entry for entry in found if entry.read and entry.read.slice.size and not entry.read.slice.is_cached()]
        if cold:
            self._broker.run_in_background(self._read_and_respond(found, cold))
        else:
            self._respond(found)

    async def _read_and_respond(self, found: list[_Found], cold: list[_Found]) -> None:
        for entry in cold:
            assert entry.partition is not None
            assert entry.read is not None
            try:
                entry.records = await entry.partition.read_cold_slice(entry.read.slice, self._broker.offload)
            except ApiError as error:
                entry.error, entry.read = error, None
        self._respond(found)

    def _respond(self, found: list[_Found]) -> None:
        if self.future.done():
            return
        response = FetchResponse(session_id=self._session.session_id if self._session else 0)
        incremental = self._session is not None and self._request.session_epoch > 0
        topics: dict[tuple[str, UUID], FetchableTopicResponse] = {}
        for entry in found:
            answer = self._partition_answer(response, entry)
            if self._session is not None:
                if not entry.wanted.news(answer) and incremental:
                    continue
                if answer.records:
                    self._session.move_back(entry.wanted)
            item = entry.wanted
            topic = topics.get((item.topic, item.topic_id))
            if topic is None:
                topic = FetchableTopicResponse(topic=item.topic, topic_id=item.topic_id)
                topics[item.topic, item.topic_id] = topic
                response.responses.append(topic)
            topic.partitions.append(answer)
        self.future.set_result(response)

    def _partition_answer(self, response: FetchResponse, entry: _Found) -> PartitionData:
        read = entry.read
        number = entry.wanted.ask.partition
        if read is not None:
            try:
                records = self._records(entry, read)
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
        self._name_leader(response, entry, answer)
        return answer

    def _records(self, entry: _Found, read: Read) -> bytes:
        if entry.records is not None:
            return entry.records
        return entry.partition.read_slice(read.slice) if read.slice.size and entry.partition else b""

    def _name_leader(self, response: FetchResponse, entry: _Found, answer: PartitionData) -> None:
        moved = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if answer.error_code not in moved or entry.partition is None or self._ctx.api_version < LEADERS_SINCE:
            return
        leader, epoch = entry.partition.leader_id, entry.partition.leader_epoch
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        endpoint = endpoint_of(self._broker.image, leader, self._ctx.listener_name)
        if endpoint is not None and all(known.node_id != leader for known in response.node_endpoints):
            response.node_endpoints.append(
                NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=endpoint.rack)
            )
