"""One partition on this broker: who leads it, what may be written and read, where the high watermark stands."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import NO_EPOCH, NO_LEADER, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from tidelog.core.ports import Offload
from tidelog.metadata.image import PartitionRegistration
from tidelog.replication.roles import Committed, Follower, Leader, Offline, Role
from tidelog.storage.log import Log
from tidelog.storage.log_types import AppendInfo, LogSlice, TimestampOffset
from tidelog.storage.ports import DiskError, FileMissing
from tidelog.storage.txn_index import AbortedTxn
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

READ_COMMITTED: Final = 1
NOTHING: Final = LogSlice(None, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Read:
    """What a fetch of one partition found: where the bytes are, and the offsets the reader is told."""

    slice: LogSlice
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: list[AbortedTxn] | None
    diverging_epoch: tuple[int, int] | None


class Partition:
    """Invariant: `log` is set unless the role is Offline; only a Leader appends records of producers."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        local_id: BrokerId,
        log: Log,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.local_id = local_id
        self.log = log
        self.role: Role = Follower(epoch=NO_EPOCH, partition_epoch=PartitionEpoch(-1), leader=NO_LEADER)

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
    def config(self) -> TopicConfig:
        return self.log.config

    def apply(self, registration: PartitionRegistration) -> bool:
        """Takes the role that the metadata gives; True if leadership came or went. A stale one changes nothing."""
        role = self.role
        if isinstance(role, Offline) or registration.partition_epoch <= role.partition_epoch:
            return False
        if registration.leader != self.local_id:
            self.role = Follower(
                epoch=LeaderEpoch(registration.leader_epoch),
                partition_epoch=PartitionEpoch(registration.partition_epoch),
                leader=BrokerId(registration.leader),
            )
            return isinstance(role, Leader)
        was_leading = isinstance(role, Leader) and role.epoch == registration.leader_epoch
        self._lead(registration, role if was_leading and isinstance(role, Leader) else None)
        return not was_leading

    def _lead(self, registration: PartitionRegistration, current: Leader | None) -> None:
        if current is None:
            # E4: a new leader truncates nothing, its epoch opens at its end.
            self.log.assign_epoch_start(registration.leader_epoch, self.log.log_end_offset)
        self.role = Leader(
            epoch=LeaderEpoch(registration.leader_epoch),
            partition_epoch=PartitionEpoch(registration.partition_epoch),
            epoch_start_offset=current.epoch_start_offset if current else Offset(self.log.log_end_offset),
            replicas=tuple(BrokerId(replica) for replica in registration.replicas),
            isr_state=Committed(isr=frozenset(BrokerId(replica) for replica in registration.isr)),
            follower_end_offsets=current.follower_end_offsets if current else {},
        )
        self.advance_high_watermark()

    def go_offline(self, reason: str) -> None:
        self.role = Offline(reason=reason)

    def require_leader(self, current_leader_epoch: int = -1) -> Leader:
        """The leader's role, or the refusal: wrong broker, or fenced by epoch (F5)."""
        role = self.role
        if isinstance(role, Offline):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {role.reason}")
        if current_leader_epoch >= 0 and current_leader_epoch != role.epoch:
            older = current_leader_epoch < role.epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is in leader epoch {role.epoch}, the request says {current_leader_epoch}",
            )
        if not isinstance(role, Leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by {role.leader}")
        return role

    # --- writing -----------------------------------------------------------------------------------------------------

    def effective_min_isr(self, leader: Leader) -> int:
        return min(self.log.config.min_insync_replicas, len(leader.replicas))

    def append_as_leader(
        self,
        records: memoryview,
        required_acks: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        allow_zstd: bool = True,
    ) -> AppendInfo:
        """Writes one batch as this epoch's leader. With acks=-1 a small ISR refuses before anything is written (P2)."""
        role = self.role
        leader = role if isinstance(role, Leader) else self.require_leader()
        if required_acks == -1 and len(leader.isr_state.isr) < self.effective_min_isr(leader):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(leader.isr_state.isr)} in-sync replicas, "
                f"{self.effective_min_isr(leader)} are needed",
            )
        try:
            info = self.log.append_as_leader(records, leader.epoch, now_ms, origin=origin, allow_zstd=allow_zstd)
        except DiskError as error:
            raise self._storage_error(error) from error
        self.advance_high_watermark()
        return info

    def advance_high_watermark(self) -> bool:
        """HW = the smallest end offset over the maximal ISR (W1); frozen below the minimum, never back (W2)."""
        role = self.role
        if not isinstance(role, Leader):
            return False
        log = self.log
        end = log.log_end_offset
        maximal_isr = role.isr_state.maximal_isr
        if len(role.isr_state.isr) < self.effective_min_isr(role):
            return False
        for replica in maximal_isr:
            if replica != self.local_id:
                end = min(end, role.follower_end_offsets.get(replica, log.log_start_offset))
        if end <= log.high_watermark:
            return False
        log.update_high_watermark(end)
        return True

    def acknowledged(self, epoch: LeaderEpoch, required_offset: int) -> ErrorCode | None:
        """How a parked acks=all write stands: None while it has to wait on (P3)."""
        role = self.role
        if isinstance(role, Offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not isinstance(role, Leader) or role.epoch != epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if len(role.isr_state.maximal_isr) < self.effective_min_isr(role):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

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
    ) -> Read:
        """Finds what a consumer may see from `fetch_offset` on: below HW, or below LSO if it reads committed (F1)."""
        self.require_leader(current_leader_epoch)
        log = self.log
        high_watermark = log.high_watermark
        last_stable = min(log.last_stable_offset, high_watermark)
        if last_fetched_epoch >= 0:
            diverging = self._diverging(last_fetched_epoch, fetch_offset)
            if diverging is not None:
                return Read(
                    NOTHING,
                    Offset(high_watermark),
                    Offset(last_stable),
                    Offset(log.log_start_offset),
                    None,
                    diverging,
                )
        upper = last_stable if isolation_level == READ_COMMITTED else high_watermark
        try:
            found = log.read(fetch_offset, max_bytes, upper_bound=upper, min_one=min_one)
            aborted: list[AbortedTxn] | None = None
            if isolation_level == READ_COMMITTED:
                # Of what the slice can hold, and no more: a reader far behind is not told of a whole log's aborts.
                aborted = log.aborted_transactions(fetch_offset, min(upper, log.end_of(found))) if found.size else []
        except DiskError as error:
            raise self._storage_error(error) from error
        return Read(found, Offset(high_watermark), Offset(last_stable), Offset(log.log_start_offset), aborted, None)

    def _diverging(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch == -1 and end_offset == -1:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: epoch {last_fetched_epoch} of the last fetched record is not known here",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def latest_offset(self, isolation_level: int) -> int:
        """The end as a reader sees it; not told before HW reached this epoch's start (W5)."""
        leader = self.require_leader()
        if self.log.high_watermark < leader.epoch_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: high watermark {self.log.high_watermark} has not reached the start "
                f"{leader.epoch_start_offset} of leader epoch {leader.epoch}",
            )
        if isolation_level == READ_COMMITTED:
            return min(self.log.last_stable_offset, self.log.high_watermark)
        return self.log.high_watermark

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
        """Moves the log start up to `before` (-1: the high watermark) and answers the low watermark."""
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
        return self.log.log_start_offset

    def read_slice(self, found: LogSlice) -> bytes:
        """The bytes of a slice: one `pread`."""
        try:
            return found.read()
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
