"""One partition on this broker: who leads it, what may be written and read, where the high watermark stands.

The one door to a replica. What a leader decides stands in `leading`, its in-sync set in `isr` and
`isr_control`, what it knows of a follower in `followers`, what a fetch finds in `reading`.
"""

from uuid import UUID

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import (
    NO_EPOCH,
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicIdPartition,
    TopicPartition,
)
from tidelog.core.ports import Offload
from tidelog.metadata.image import PartitionRegistration
from tidelog.replication import leading, reading, role_events
from tidelog.replication.context import ReplicationContext
from tidelog.replication.followers import FollowerState
from tidelog.replication.isr import Committed, Pending
from tidelog.replication.isr_changes import Outcome
from tidelog.replication.isr_control import IsrControl
from tidelog.replication.reading import NOTHING, READ_COMMITTED
from tidelog.replication.reading import Read as Read
from tidelog.replication.roles import UNCHANGED, Follower, Leader, Offline, Role, RoleChange
from tidelog.storage.log import Log
from tidelog.storage.log_types import AppendInfo, LogSlice, TimestampOffset
from tidelog.storage.ports import DiskError, FileMissing
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import ResponsePartitionData


class Partition:
    """Invariant: only a Leader appends records of producers; roles change by `apply` and `go_offline` alone."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        local_id: BrokerId,
        log: Log,
        context: ReplicationContext | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.local_id = local_id
        self.log = log
        self.role: Role = Follower(epoch=NO_EPOCH, partition_epoch=PartitionEpoch(-1), leader=NO_LEADER)
        self._context = context or ReplicationContext()
        key = TopicIdPartition(topic_id, topic_partition.partition)
        self._isr = IsrControl(self, key, topic_partition, log, self._context)

    # --- the role ----------------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return NO_EPOCH if isinstance(self.role, Offline) else self.role.epoch

    @property
    def leader_id(self) -> BrokerId:
        match self.role:
            case Leader():
                return self.local_id
            case Follower(leader=leader):
                return leader
        return NO_LEADER

    @property
    def has_followers(self) -> bool:
        return isinstance(self.role, Leader) and bool(self.role.followers)

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    def apply(self, registration: PartitionRegistration, now_s: float) -> RoleChange:
        """Takes the role that the metadata gives. A stale registration changes nothing."""
        role = self.role
        if isinstance(role, Offline) or registration.partition_epoch < role.partition_epoch:
            return UNCHANGED
        if registration.partition_epoch == role.partition_epoch:
            if isinstance(role, Leader):
                # Known already from the controller's answer, which does not tell the assignment.
                leading.take_assignment(role, registration, self.local_id)
                return RoleChange(high_watermark_moved=self.advance_high_watermark(now_s))
            return UNCHANGED
        if registration.leader != self.local_id:
            return self._follow(role, registration)
        if isinstance(role, Leader) and role.epoch == registration.leader_epoch:
            return self._lead_on(role, registration, now_s)
        return self._lead(registration, now_s)

    def _follow(self, role: Leader | Follower, registration: PartitionRegistration) -> RoleChange:
        self.role = Follower(
            epoch=LeaderEpoch(registration.leader_epoch),
            partition_epoch=PartitionEpoch(registration.partition_epoch),
            leader=BrokerId(registration.leader),
        )
        is_same = isinstance(role, Follower) and (role.leader, role.epoch) == (self.role.leader, self.role.epoch)
        if not is_same:
            self._context.on_event(role_events.follows(self.topic_partition, self.role, self.log))
        return RoleChange(leadership=isinstance(role, Leader), following=not is_same)

    def _lead(self, registration: PartitionRegistration, now_s: float) -> RoleChange:
        epoch = registration.leader_epoch
        if self.log.latest_epoch >= epoch:
            # E6: records of this epoch are here already, and others like them may have been lost.
            self.go_offline(f"elected leader in epoch {epoch}, but its log already has epoch {self.log.latest_epoch}")
            return RoleChange(leadership=True, following=True)
        self.log.assign_epoch_start(epoch, self.log.log_end_offset)
        self.role = leading.new_epoch(registration, self.local_id, self.log, now_s, self.role)
        self._context.on_event(role_events.leads(self.topic_partition, self.role, self.log))
        moved = self.advance_high_watermark(now_s)
        self._isr.propose(self.role, leading.recovery(self.role))
        return RoleChange(leadership=True, following=True, high_watermark_moved=moved)

    def _lead_on(self, leader: Leader, registration: PartitionRegistration, now_s: float) -> RoleChange:
        """Newer metadata of the same epoch: whatever was pending is decided, this way or another (I5)."""
        was_pending = not isinstance(leader.isr_state, Committed)
        leading.take_assignment(leader, registration, self.local_id)
        self._isr.commit(leader, leading.committed_of(registration), registration.partition_epoch)
        self._isr.propose(leader, leading.recovery(leader))
        return RoleChange(high_watermark_moved=self.advance_high_watermark(now_s), isr_decided=was_pending)

    def go_offline(self, reason: str, error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        self.role = Offline(reason=reason, error=error)

    def require_leader(self, current_leader_epoch: int = -1) -> Leader:
        """The leader's role, or the refusal: wrong broker, or fenced by epoch (F5)."""
        role = self.require_replica(current_leader_epoch)
        if not isinstance(role, Leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by {role.leader}")
        return role

    def require_replica(self, current_leader_epoch: int = -1) -> Leader | Follower:
        """The role of a replica that can be read, or the refusal."""
        role = self.role
        if isinstance(role, Offline):
            raise ApiError(role.error, f"{self.topic_partition}: {role.reason}")
        if current_leader_epoch >= 0 and current_leader_epoch != role.epoch:
            older = current_leader_epoch < role.epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is in leader epoch {role.epoch}, the request has {current_leader_epoch}",
            )
        return role

    # --- writing -----------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: memoryview,
        required_acks: int,
        now_ms: int,
        now_s: float,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        allow_zstd: bool = True,
    ) -> AppendInfo:
        """Writes one batch as this epoch's leader. With acks=-1 a small ISR refuses before anything is written (P2)."""
        role = self.role
        leader = role if isinstance(role, Leader) else self.require_leader()
        log = self.log
        if required_acks == -1 and leading.is_under_min_isr(leader, log):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(leader.isr_state.isr)} in-sync replicas, "
                f"{leading.effective_min_isr(leader, log)} are needed",
            )
        try:
            info = log.append_as_leader(records, leader.epoch, now_ms, origin=origin, allow_zstd=allow_zstd)
        except DiskError as error:
            raise self._storage_error(error) from error
        leading.advance_high_watermark(leader, log, self._context, now_s)
        return info

    def acknowledged(self, epoch: LeaderEpoch, required_offset: int) -> ErrorCode | None:
        """How an acks=all write of this leader epoch stands: None while it has to wait on (P3)."""
        role = self.role
        if isinstance(role, Offline):
            return role.error
        if not isinstance(role, Leader) or not role.first_epoch <= epoch <= role.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(role.isr_state.maximal_isr) < leading.effective_min_isr(role, self.log):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def advance_high_watermark(self, now_s: float) -> bool:
        """Looks again where it may stand: followers, the ISR, the brokers or a config may have changed (W1)."""
        role = self.role
        return isinstance(role, Leader) and leading.advance_high_watermark(role, self.log, self._context, now_s)

    # --- followers and the in-sync set -------------------------------------------------------------------------------

    def read_for_follower(
        self,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        max_bytes: int,
        *,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        min_one: bool,
    ) -> Read:
        """Up to the log's end (F1), or where the follower's log diverges and no bytes (F5). Changes nothing."""
        leader = self.require_leader(current_leader_epoch)
        self._require_follower(leader, replica_id, broker_epoch, current_leader_epoch)
        log = self.log
        if last_fetched_epoch >= 0:
            diverging = reading.diverging(log, last_fetched_epoch, fetch_offset)
            if diverging is not None:
                return reading.found(log, NOTHING, diverging_epoch=diverging)
        try:
            return reading.found(
                log, log.read(fetch_offset, max_bytes, upper_bound=log.log_end_offset, min_one=min_one)
            )
        except DiskError as error:
            raise self._storage_error(error) from error

    def on_follower_fetch(
        self,
        replica_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        current_leader_epoch: int,
        now_s: float,
    ) -> bool:
        """A fetch that `read_for_follower` has answered without error or divergence: its offset is the follower's end.

        True if somebody who waits has to look again. What comes from another broker epoch than the metadata knows, or
        names no leader epoch, teaches nothing: it may be about another process's log or an earlier epoch's (F2).
        """
        replica = BrokerId(replica_id)
        leader = self.require_leader(current_leader_epoch)
        state = leader.followers[replica]
        if current_leader_epoch < 0 or broker_epoch < 0 or broker_epoch != self._context.epoch_of(replica):
            return False
        log_start_moved = log_start_offset != state.log_start_offset
        state.on_fetch(fetch_offset, log_start_offset, self.log.log_end_offset, broker_epoch, now_s)
        self._isr.propose_newcomer(leader, leading.expansion(leader, replica, self.log, self._context), now_s)
        moved = leading.advance_high_watermark(leader, self.log, self._context, now_s)
        return moved or log_start_moved

    def is_isr_pending(self) -> bool:
        """Whether a change of this leader's ISR is under way."""
        return isinstance(self.role, Leader) and not isinstance(self.role.isr_state, Committed)

    def has_in_sync(self, replica_id: int) -> bool:
        """Whether this leader's ISR has it."""
        return isinstance(self.role, Leader) and replica_id in self.role.isr_state.isr

    def is_throttled_for(self, replica_id: int) -> bool:
        """Whether what this follower is sent counts against the leader's throttle: never of one in sync (C8)."""
        named = self.config.leader_replication_throttled_replicas
        return (
            bool(named)
            and isinstance(self.role, Leader)
            and replica_id not in self.role.isr_state.isr
            and self._context.leader_throttle.covers(named, self.topic_partition.partition)
        )

    def _require_follower(
        self, leader: Leader, replica_id: int, broker_epoch: int, current_leader_epoch: int
    ) -> FollowerState:
        state = leader.followers.get(BrokerId(replica_id))
        if state is None:
            # With the right epoch it is an assignment that this broker has not replayed yet: the follower tries again.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(
                code, f"{replica_id} is not an assigned replica of {self.topic_partition} in this leader's metadata"
            )
        if 0 <= broker_epoch < self._context.epoch_of(replica_id):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic_partition}: broker {replica_id} has a newer registration than epoch {broker_epoch}",
            )
        return state

    def check_isr(self, now_s: float) -> bool:
        """The timer's look (I2): who has fallen behind, what was left undone; whether the high watermark moved."""
        role = self.role
        if not isinstance(role, Leader):
            return False
        self._isr.propose(role, leading.recovery(role))
        self._isr.propose(role, leading.shrinkage(role, self.log, self._context, now_s))
        # Whoever was about to join and has fallen behind holds it up no longer.
        return self.advance_high_watermark(now_s)

    def is_pending(self, pending: Pending) -> bool:
        """Whether this very proposal is the one under way."""
        return isinstance(self.role, Leader) and self.role.isr_state is pending

    def on_isr_answer(self, pending: Pending, answer: ResponsePartitionData, now_s: float) -> Outcome:
        """The controller's word on a proposal of ours."""
        role = self.role
        return self._isr.on_answer(role, pending, answer, now_s) if isinstance(role, Leader) else Outcome()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        isolation_level: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        min_one: bool = True,
        any_replica: bool = False,
    ) -> Read:
        """Finds what a consumer may see from `fetch_offset` on: below HW, or below LSO if it reads committed (F1).

        Only a leader tells, unless `any_replica` says that a follower's word, up to the HW it knows, will do.
        """
        if any_replica:
            self.require_replica(current_leader_epoch)
        else:
            self.require_leader(current_leader_epoch)
        if last_fetched_epoch >= 0:
            diverging = reading.diverging(self.log, last_fetched_epoch, fetch_offset)
            if diverging is not None:
                return reading.found(self.log, NOTHING, diverging_epoch=diverging)
        try:
            return reading.for_consumer(self.log, fetch_offset, max_bytes, isolation_level, min_one=min_one)
        except DiskError as error:
            raise self._storage_error(error) from error

    def latest_offset(self, isolation_level: int) -> int:
        """The end as a reader sees it; not told before HW reached this epoch's start (W5)."""
        leader = self.require_leader()
        if self.log.high_watermark < leader.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: high watermark {self.log.high_watermark} has not reached the start "
                f"{leader.epoch_start_offset} of leader epoch {leader.epoch}",
            )
        return self.readable_end(isolation_level)

    def readable_end(self, isolation_level: int) -> int:
        """Up to where consumers are served now (F1)."""
        # `last_stable_offset` is never beyond the high watermark.
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after `timestamp`."""
        try:
            return self.log.offset_for_timestamp(timestamp)
        except DiskError as error:
            raise self._storage_error(error) from error

    def offset_for_max_timestamp(self) -> TimestampOffset | None:
        """The record with the newest timestamp."""
        try:
            return self.log.offset_for_max_timestamp()
        except DiskError as error:
            raise self._storage_error(error) from error

    def delete_records(self, before: int) -> int:
        """Moves the log start up to `before` (-1: the high watermark); what the low watermark has to reach for it."""
        self.require_leader()
        offset = self.log.high_watermark if before == -1 else before
        if offset < 0 or offset > self.log.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: cannot delete records before {before}, "
                f"the high watermark is {self.log.high_watermark}",
            )
        try:
            self.log.increment_log_start_offset(offset)
        except DiskError as error:
            raise self._storage_error(error) from error
        return offset

    def low_watermark(self) -> int:
        """The smallest log start of the live replicas."""
        return leading.low_watermark(self.require_leader(), self.log, self._context)

    def read_slice(self, found: LogSlice) -> bytes:
        """The bytes of a slice: one `pread`."""
        try:
            return found.read()
        except DiskError as error:
            raise self._storage_error(error) from error

    def find_cold(self, offset: int, max_bytes: int, upper_bound: int) -> LogSlice:
        """Where the next batches stand, for a reader of our own."""
        try:
            return self.log.read(offset, max_bytes, upper_bound=upper_bound, min_one=True)
        except DiskError as error:
            raise self._storage_error(error) from error

    async def read_cold_slice(self, found: LogSlice, offload: Offload) -> bytes:
        """As `read_slice`, away from the event loop: nobody else waits for this reader's old records."""
        try:
            return await offload(found.read)
        except DiskError as error:
            raise self._storage_error(error) from error

    def _storage_error(self, error: DiskError) -> ApiError:
        """A disk that failed is not asked again (C10); whoever watches the directory is told by it."""
        if not isinstance(error, FileMissing):
            self.log.directory.fail(error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error}")
