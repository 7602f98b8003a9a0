"""Fetch (1), versions 4 to 18.

F1 what a reader may see, F2 what a follower's fetch tells, F3 the long poll, F4 whole batches and one even when too
large, F5 epoch fencing, F6 out of range, F7 sessions (KIP-227), C8 the leader's throttle; topic ids from v13; the
current leader from v12 (KIP-951). Bytes are slices of segments. What an answer looks like stands in `fetch_answers`.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final

from tidelog.broker.api.fetch_answers import Found, build_response
from tidelog.broker.appends import ReplicaFetch, wake
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.fetch_sessions import FetchSession, SessionFetch, WantedPartition, replica_of
from tidelog.broker.lookups import DEBUGGING_REPLICA, absent_partition_error, topic_name
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.replication.partition import Partition
from tidelog.replication.reading import NOTHING, Read
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC_IDS_SINCE: Final = 13
# The smallest budget that still lets a partition's first batch be looked for.
NO_BYTES_LEFT: Final = 0
# In `high_watermark` of a request: its sender does not say what it knows (KIP-1166).
NOT_TOLD: Final = 2**63 - 1


def handle(broker: Broker, ctx: RequestContext, request: FetchRequest) -> FetchResponse | asyncio.Future[FetchResponse]:
    uses_topic_ids = ctx.api_version >= TOPIC_IDS_SINCE
    name_of = partial(topic_name, broker.image)
    now_s, lag_s = broker.loop.time(), broker.replicas.context.lag_s
    try:
        session, wanted = broker.fetch_sessions.begin(request, name_of, uses_topic_ids, now_s, lag_s)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    delayed = DelayedFetch(broker, ctx, request, session, wanted)
    if request.max_wait_ms <= 0 or not (wanted or delayed.tracks):
        delayed.expire()
        return delayed.result()
    cancel = broker.fetch_purgatory.try_complete_else_watch(delayed, delayed.waits_for(), delayed.longest_wait_s())
    if cancel is None:
        return delayed.result()
    # A reader that went away is not waited for (and its answer not read from disk).
    delayed.forget = ctx.connection.on_close(cancel)
    return delayed.future


class DelayedFetch:
    """A fetch that waits for `min_bytes`, for an error, for an HW that a follower has not seen, or for time (F3)."""

    __slots__ = (
        "_broker",
        "_broker_epoch",
        "_ctx",
        "_is_first_look",
        "_replica_id",
        "_request",
        "_session",
        "_wanted",
        "forget",
        "future",
        "tracks",
    )

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
        self._replica_id = replica_of(request)
        self._broker_epoch = request.replica_state.replica_epoch
        # Whether only what was stirred is looked at, once this has looked at what its request may concern.
        self.tracks = session is not None and session.of_replica and request.session_epoch > 0
        # A follower's fetch says where it stands once, however often this looks for what to answer (F2).
        self._is_first_look = True
        # Once it is answered: nobody has to be told any more that the reader went away.
        self.forget: Callable[[], None] | None = None
        self.future: asyncio.Future[FetchResponse] = broker.loop.create_future()

    def waits_for(self) -> Iterator[Hashable]:
        if self.tracks and self._session is not None:
            yield SessionFetch(self._session.session_id)
            return
        for item in self._wanted:
            topic_partition = TopicPartition(item.topic, item.ask.partition)
            yield ReplicaFetch(topic_partition) if self._replica_id >= 0 else topic_partition

    def longest_wait_s(self) -> float:
        """Not longer than the throttle lasts that holds records back: whoever waited for that is served then (C8)."""
        longest_s = self._request.max_wait_ms / 1000
        throttle, now_s = self._broker.replicas.context.leader_throttle, self._broker.loop.time()
        if self._replica_id < 0 or not throttle.is_exceeded(now_s):
            return longest_s
        partitions = (
            self._broker.replicas.get(TopicPartition(item.topic, item.ask.partition)) for item in self._wanted
        )
        held_back = any(each is not None and each.is_throttled_for(self._replica_id) for each in partitions)
        return min(longest_s, throttle.ready_at_s(now_s) - now_s) if held_back else longest_s

    def try_complete(self) -> bool:
        found, size, at_once = self._look()
        if size < self._request.min_bytes and not at_once:
            return False
        self._answer(found)
        return True

    def expire(self) -> None:
        found, _, _ = self._look()
        self._answer(found)

    def result(self) -> FetchResponse | asyncio.Future[FetchResponse]:
        """The answer, or the promise of one that is still being read from the device."""
        return self.future.result() if self.future.done() else self.future

    # --- looking ---

    def _look(self) -> tuple[list[Found], int, bool]:
        """Finds what there is to read (no byte of it is read yet), its size, and whether waiting is pointless."""
        left = min(self._request.max_bytes, self._broker.config.fetch_max_bytes)
        found: list[Found] = []
        moved: list[Partition] = []
        size = 0
        at_once = False
        session = self._session if self._session is not None and self._session.of_replica else None
        if session is not None and self.tracks and not self._is_first_look:
            self._wanted = list(session.unsettled.values())
        for item in self._wanted:
            entry = self._find(item, left, size == 0, moved)
            found.append(entry)
            read = entry.read
            if read is None or read.diverging_epoch is not None:
                has_news = True
            else:
                size += read.slice.size
                left -= read.slice.size
                has_news = self._replica_id >= 0 and self._has_news(item, read)
            at_once = at_once or has_news
            if session is not None:
                session.settle(item, settled=not has_news and self._is_settled(entry))
        self._is_first_look = False
        if moved:
            wake(self._broker, *(partition.topic_partition for partition in moved))
        return found, size, at_once

    def _find(self, item: WantedPartition, left: int, min_one: bool, moved: list[Partition]) -> Found:
        ask = item.ask
        if not item.topic:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return Found(item, None, None, ApiError(code, f"no topic has the id {item.topic_id}"))
        partition = self._broker.replicas.get(TopicPartition(item.topic, ask.partition))
        if partition is None:
            code = absent_partition_error(self._broker.image, item.topic, ask.partition)
            return Found(item, None, None, ApiError(code))
        if item.topic_id != partition.topic_id and item.topic_id != ZERO_UUID:
            # Deleted and made again under its name: what the reader knows of offsets is about another topic.
            code = ErrorCode.INCONSISTENT_TOPIC_ID
            return Found(item, None, None, ApiError(code, f"topic {item.topic} does not have the id {item.topic_id}"))
        max_bytes = max(NO_BYTES_LEFT, min(ask.partition_max_bytes, left))
        try:
            if self._replica_id >= 0:
                read = self._read_for_follower(partition, item, max_bytes, min_one, moved)
            else:
                read = partition.read(
                    ask.fetch_offset,
                    max_bytes,
                    isolation_level=self._request.isolation_level,
                    current_leader_epoch=ask.current_leader_epoch,
                    last_fetched_epoch=ask.last_fetched_epoch,
                    min_one=min_one,
                    any_replica=self._replica_id == DEBUGGING_REPLICA,
                )
        except ApiError as error:
            return Found(item, partition, None, error)
        return Found(item, partition, read, None)

    def _read_for_follower(
        self, partition: Partition, item: WantedPartition, max_bytes: int, min_one: bool, moved: list[Partition]
    ) -> Read:
        ask = item.ask
        read = partition.read_for_follower(
            self._replica_id,
            self._broker_epoch,
            ask.fetch_offset,
            max_bytes,
            current_leader_epoch=ask.current_leader_epoch,
            last_fetched_epoch=ask.last_fetched_epoch,
            min_one=min_one,
        )
        if self._is_first_look and read.diverging_epoch is None:
            if partition.on_follower_fetch(
                self._replica_id,
                self._broker_epoch,
                ask.fetch_offset,
                ask.log_start_offset,
                ask.current_leader_epoch,
                self._broker.loop.time(),
            ):
                moved.append(partition)
            # It may have moved by this very fetch, and the follower hears of it with the answer.
            read.take_offsets(partition.log)
        throttle = self._broker.replicas.context.leader_throttle
        if partition.is_throttled_for(self._replica_id) and throttle.is_exceeded(self._broker.loop.time()):
            read.slice = NOTHING
        return read

    def _has_news(self, item: WantedPartition, read: Read) -> bool:
        """Whether the offsets have moved since the follower was last told (F3, beyond: Kafka lets it wait on)."""
        if self._session is not None:
            return read.high_watermark > item.high_watermark or read.log_start_offset > item.log_start_offset
        known = item.ask.high_watermark
        return known != NOT_TOLD and read.high_watermark > known

    def _is_settled(self, entry: Found) -> bool:
        """Of what has no news: at the log's end, so that whatever comes will stir it.

        Not if records are held back by a limit or the throttle. While a change of the ISR is under way there is nothing
        to do: when it is over the partition is stirred, and the next fetch may propose this follower (I3). One that may
        not join now is stirred with its broker, and if that is found by a fetch that waits, it is left to the next one:
        only a new fetch proposes anybody.
        """
        partition = entry.partition
        return (
            partition is not None
            and entry.wanted.ask.fetch_offset >= partition.log.log_end_offset
            and (self._is_first_look or partition.is_isr_pending() or partition.has_in_sync(self._replica_id))
        )

    # --- answering ---

    def _answer(self, found: list[Found]) -> None:
        if self._replica_id >= 0:
            self._record_throttled(found)
        cold = [entry for entry in found if entry.read and entry.read.slice.size and not entry.read.slice.is_cached()]
        if cold:
            self._broker.run_in_background(self._read_and_respond(found, cold))
        else:
            self._respond(found)

    def _record_throttled(self, found: list[Found]) -> None:
        for entry in found:
            if entry.partition is None or entry.read is None or not entry.read.slice.size:
                continue
            if entry.partition.is_throttled_for(self._replica_id):
                throttle = self._broker.replicas.context.leader_throttle
                throttle.record(entry.read.slice.size, self._broker.loop.time())

    async def _read_and_respond(self, found: list[Found], cold: list[Found]) -> None:
        for entry in cold:
            assert entry.partition is not None
            assert entry.read is not None
            try:
                entry.records = await entry.partition.read_cold_slice(entry.read.slice, self._broker.offload)
            except ApiError as error:
                entry.error, entry.read = error, None
        self._respond(found)

    def _respond(self, found: list[Found]) -> None:
        if not self.future.done():
            incremental = self._request.session_epoch > 0
            self.future.set_result(build_response(self._broker, self._ctx, self._session, found, incremental))
            if self._replica_id < 0:
                sizes = (entry.read.slice.size for entry in found if entry.read is not None and entry.error is None)
                self._broker.traffic.bytes_out += sum(sizes)
        if self.forget is not None:
            self.forget()
