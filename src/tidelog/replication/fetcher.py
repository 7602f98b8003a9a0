"""One leader's partitions as this broker follows them: what to ask it next, and what to do with its answers.

Pure: the shell (`broker/replica_fetchers.py`) sends what `build_request` gives and hands back the answer. At most one
request is under way, so an answer is matched against what was asked: **nothing of it is used for a partition whose
role, leader epoch, topic or log end is no longer what the request said** (reliability: "a fetch response is applied
without checking offset and epoch").

A partition is either fetched, or waits (after an error, or throttled), or asks for the leader's offsets because its own
was out of range (F6: `fetcher_offsets`).

Thousands may be followed of which few move, so a request is made from those that are *stirred*: newly assigned,
answered, waiting or not caught up. All are walked from time to time, for what changes from elsewhere: retention, a
config.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tidelog.core.config.node import NodeConfig
from tidelog.core.event import Event
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicIdPartition, TopicPartition
from tidelog.replication import fetcher_offsets, following
from tidelog.replication.fetch_session import IncrementalFetches, error_name, walk_interval_s
from tidelog.replication.fetcher_state import LATEST, Followed, Outcome
from tidelog.replication.following import LeaderOffsets
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from tidelog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

# Doubled by each failure in a row, up to `replica.fetch.backoff.ms`: a leader that has not heard of its election yet
# will within milliseconds, and until it is asked again nothing is acknowledged.
FIRST_BACKOFF_S: Final = 0.02

# How long a leader may hold a fetch while partitions are being assigned: the next ones will not wait for it longer.
SHORT_WAIT_MS: Final = 20
# Assignments come in slices of one metadata delta and in deltas close to each other. This long after the last one the
# next fetch may be held again.
ASSIGNING_S: Final = 0.2

Request = FetchRequest | ListOffsetsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherConfig:
    """The `replica.fetch.*` keys."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1_048_576
    response_max_bytes: int = 10_485_760
    backoff_ms: int = 1000

    @classmethod
    def of(cls, config: NodeConfig) -> "FetcherConfig":
        return cls(
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
        )

    def backoff_s(self, failures: int) -> float:
        """After so many failures in a row."""
        longest = self.backoff_ms / 1000
        return min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 30), longest)


@dataclass(slots=True)
class Fetcher:
    """Invariant: `in_flight` is the one request whose answer is awaited; an answer to any other changes nothing."""

    local_id: BrokerId
    leader_id: BrokerId
    broker_epoch: int
    config: FetcherConfig
    throttle: ReplicationThrottle
    in_flight: Request | None = None
    # After a failed connection nobody is asked anything until then.
    ready_at_s: float = 0.0
    failures: int = 0
    # While partitions are being assigned, and for a while after that: see `SHORT_WAIT_MS`.
    short_until_s: float = float("-inf")
    # In the order in which they are asked for: who got bytes goes to the end, or the others would never come.
    _followed: dict[TopicPartition, Followed] = field(default_factory=dict)
    _by_id: dict[TopicIdPartition, Followed] = field(default_factory=dict)
    _stirred: dict[TopicPartition, Followed] = field(default_factory=dict)
    # Not followed any more, and the leader may not know.
    _gone: dict[TopicIdPartition, None] = field(default_factory=dict)
    _walked_at_s: float = float("-inf")
    _session: IncrementalFetches = field(default_factory=IncrementalFetches)

    # --- which partitions ---

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._followed

    def assign(self, partition: Partition, leader_epoch: LeaderEpoch, now_ms: int) -> list[Event]:
        """Follows the partition in this epoch, also if it was followed in another one before."""
        followed = Followed(partition, leader_epoch)
        # Also of the topic that had this name before.
        self.remove(partition.topic_partition)
        try:
            event = following.begin(partition, leader_epoch, now_ms)
        except (ApiError, DiskError):
            # Its directory is offline now, or this replica alone, and whoever looks after them tells: there is nothing
            # to follow with.
            return []
        self._followed[partition.topic_partition] = followed
        self._by_id[followed.key] = followed
        self._stirred[partition.topic_partition] = followed
        self._gone.pop(followed.key, None)
        return [] if event is None else [event]

    def remove(self, topic_partition: TopicPartition) -> None:
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            del self._by_id[followed.key]
            self._stirred.pop(topic_partition, None)
            self._gone[followed.key] = None

    def count_behind(self) -> int:
        """Partitions that lack committed records, or may."""
        return sum(not followed.is_caught_up for followed in self._followed.values())

    def max_lag(self) -> int:
        """The largest number of committed records that a partition lacks, as of its last answer."""
        return max((followed.lag for followed in self._followed.values()), default=0)

    # --- what to ask ---

    def build_request(self, now_s: float) -> Request | None:
        """What to send now; None: nothing before `next_due_s`, or before the assignment changes."""
        assert self.in_flight is None, self.in_flight
        if now_s < self.ready_at_s:
            return None
        if not self._session.is_incremental or now_s - self._walked_at_s >= walk_interval_s(len(self)):
            self._walked_at_s = now_s
            self._stirred = dict(self._followed)
        self._write_log_starts()
        for topic_partition in [tp for tp, followed in self._stirred.items() if not followed.is_current()]:
            # Its role has changed or its log is gone, and the assignment will say so.
            self.remove(topic_partition)
        asking = [each for each in self._stirred.values() if each.asks_for is not None and each.ready_at_s <= now_s]
        request = fetcher_offsets.build_request(asking, self.local_id) if asking else self._build_fetch(now_s)
        self.in_flight = request
        return request

    def _write_log_starts(self) -> None:
        """Before a fetch tells them: with that the leader takes records for deleted here, and says so to its clients.

        Retention moves many at once, so one file is written for all of a directory.
        """
        unwritten = {
            each.partition.log.directory.path: each.partition.log.directory
            for each in self._stirred.values()
            if each.partition.log.directory.log_starts_unwritten
        }
        for _, directory in sorted(unwritten.items()):
            with suppress(DiskError):  # offline now, and its partitions are not fetched any more
                directory.write_log_starts()

    def next_due_s(self, now_s: float) -> float | None:
        """When to call `build_request` again, if it gave nothing; None: when the assignment changes."""
        waiting = [self._due_s(followed, now_s) for followed in self._followed.values()]
        return max(self.ready_at_s, min(waiting)) if waiting else None

    def _due_s(self, followed: Followed, now_s: float) -> float:
        if followed.asks_for is None and self._is_held_back(followed, now_s):
            return max(followed.ready_at_s, self.throttle.ready_at_s(now_s))
        return followed.ready_at_s

    def _is_held_back(self, followed: Followed, now_s: float) -> bool:
        return not followed.is_caught_up and self._is_throttled(followed) and self.throttle.is_exceeded(now_s)

    def _is_throttled(self, followed: Followed) -> bool:
        partition = followed.partition
        named = partition.config.follower_replication_throttled_replicas
        return bool(named) and self.throttle.covers(named, partition.topic_partition.partition)

    def _build_fetch(self, now_s: float) -> FetchRequest | None:
        wanted: dict[TopicIdPartition, FetchPartition] = {}
        # Still to be looked at by the next request, whatever this one is answered.
        unsettled: dict[TopicPartition, Followed] = {}
        gone = dict(self._gone)
        for topic_partition, followed in self._stirred.items():
            if followed.ready_at_s > now_s or followed.asks_for is not None or self._is_held_back(followed, now_s):
                gone[followed.key] = None
                unsettled[topic_partition] = followed
                continue
            if not followed.is_caught_up:
                # The throttle may have it wait, then.
                unsettled[topic_partition] = followed
            log = followed.partition.log
            wanted[followed.key] = FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=followed.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.latest_epoch,
                log_start_offset=log.log_start_offset,
                partition_max_bytes=self.config.partition_max_bytes,
            )
        if self._session.is_empty_after(wanted, gone):
            return None
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.local_id, replica_epoch=self.broker_epoch),
            max_wait_ms=self._max_wait_ms(now_s),
            min_bytes=self.config.min_bytes,
            max_bytes=self.config.response_max_bytes,
        )
        self._session.fill(request, wanted, gone)
        self._stirred = unsettled
        self._gone.clear()
        return request

    def _max_wait_ms(self, now_s: float) -> int:
        longest = self.config.max_wait_ms
        return min(longest, SHORT_WAIT_MS) if now_s < self.short_until_s else longest

    # --- what came of it ---

    def on_failure(self, request: Request, now_s: float) -> None:
        """No answer: the leader may or may not have seen the request, so a session is begun anew."""
        if request is self.in_flight:
            self.in_flight = None
            self._session.restart()
            self.failures += 1
            self.ready_at_s = now_s + self.config.backoff_s(self.failures)

    def abandon(self, request: Request) -> None:
        """The shell gave up waiting, since there is something more urgent to ask: no fault of the leader."""
        if request is self.in_flight:
            self.in_flight = None
            self._session.restart()

    def on_response(
        self, request: Request, response: FetchResponse | ListOffsetsResponse, now_s: float, now_ms: int
    ) -> Outcome:
        """Applies an answer, partition by partition. An answer to a request that was given up is not looked at."""
        outcome = Outcome()
        if request is self.in_flight:
            self.failures = 0
            if isinstance(response, ListOffsetsResponse):
                assert isinstance(request, ListOffsetsRequest), request
                self._on_offsets(request, response, outcome, now_s, now_ms)
            else:
                self._on_fetched(response, outcome, now_s, now_ms)
            # Last: should anything above break, the request has failed (`on_failure`).
            self.in_flight = None
        return outcome

    def _on_offsets(
        self, request: ListOffsetsRequest, response: ListOffsetsResponse, outcome: Outcome, now_s: float, now_ms: int
    ) -> None:
        for followed, error in fetcher_offsets.on_response(
            self._followed, self.leader_id, request, response, outcome, now_ms
        ):
            self._back_off(followed, error, outcome, now_s)

    def _on_fetched(self, response: FetchResponse, outcome: Outcome, now_s: float, now_ms: int) -> None:
        problem = self._session.accept(response)
        if problem is not None:
            outcome.problems.append(f"leader {self.leader_id}: {problem}")
            if response.error_code not in _SESSION_GONE:
                self.failures = 1
                self.ready_at_s = now_s + self.config.backoff_s(self.failures)
            return
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicIdPartition(topic.topic_id, data.partition_index)
                self._on_answer(self._by_id.get(key), self._session.asked(key), data, outcome, now_s, now_ms)

    def _on_answer(
        self,
        followed: Followed | None,
        asked: FetchPartition | None,
        data: PartitionData,
        outcome: Outcome,
        now_s: float,
        now_ms: int,
    ) -> None:
        if followed is None or asked is None or not followed.still_asks(asked):
            # The leader believes that we know these offsets now: a new session has them told again.
            self._session.restart()
            return
        self._stir(followed)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.asks_for = LATEST
            return
        if data.error_code != ErrorCode.NONE:
            self._back_off(followed, error_name(data.error_code), outcome, now_s)
            return
        try:
            self._apply(followed, data, outcome, now_s, now_ms)
            followed.failures = 0
        except (ApiError, DiskError) as error:
            # Nothing was appended. Of a bad answer the rest is not used either; of our own bad disk its directory is
            # offline now, and the other partitions go on.
            self._back_off(followed, str(error), outcome, now_s)

    def _apply(self, followed: Followed, data: PartitionData, outcome: Outcome, now_s: float, now_ms: int) -> None:
        partition = followed.partition
        diverging = data.diverging_epoch
        if diverging.epoch >= 0:
            # Neither records nor a high watermark: below it, this log may hold others than the committed ones.
            start = partition.log.log_start_offset
            event = following.cut_to_divergence(
                partition, self.leader_id, diverging.epoch, diverging.end_offset, now_ms
            )
            outcome.add(event)
            followed.cut_below(start)
            return
        if data.records:
            # What keeps a caught-up replica so is not held back, and so does not use up what others may fetch.
            counts = not followed.is_caught_up and self._is_throttled(followed)
            info = following.append_as_follower(partition, data.records, followed.leader_epoch, now_ms)
            outcome.bytes_appended += info.size_in_bytes
            if counts:
                self.throttle.record(info.size_in_bytes, now_s)
            self._followed[partition.topic_partition] = self._followed.pop(partition.topic_partition)
        if following.follow_offsets(partition, LeaderOffsets(data.high_watermark, data.log_start_offset)):
            outcome.high_watermark_moved.append(partition)
        followed.heard(data.high_watermark)
        if 2 * len(data.records or b"") >= self.config.partition_max_bytes and not followed.is_caught_up:
            outcome.filled.append(followed)

    def _stir(self, followed: Followed) -> None:
        """Last of those that are: who was answered comes after who was not."""
        topic_partition = followed.partition.topic_partition
        self._stirred.pop(topic_partition, None)
        self._stirred[topic_partition] = followed

    def _back_off(self, followed: Followed, reason: str, outcome: Outcome, now_s: float) -> None:
        followed.failures += 1
        followed.ready_at_s = now_s + self.config.backoff_s(followed.failures)
        outcome.problems.append(
            f"{followed.partition.topic_partition}: fetch from leader {self.leader_id} in epoch "
            f"{followed.leader_epoch} at offset {followed.partition.log.log_end_offset}: {reason}"
        )


_SESSION_GONE: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
