"""One replica's log: appending, and the offsets everything else goes by.

Reading stands in `log_reader`, cutting in `log_truncation`, deleting in `retention`, opening in `recovery`. Nothing in
memory changes before the bytes of an append are written; once a write failed, the whole directory refuses (see
`directory`).
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Self
from uuid import UUID

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage import (
    checkpoints,
    log_following,
    log_producers,
    log_reader,
    log_truncation,
    recovery,
    retention,
)
from tidelog.storage.checkpoints import EpochEntry
from tidelog.storage.directory import LogDirectory
from tidelog.storage.epoch_cache import EpochCache
from tidelog.storage.log_flush import FlushTask
from tidelog.storage.log_types import AppendInfo, LogSlice, TimestampOffset
from tidelog.storage.offset_index import MAX_RELATIVE_OFFSET
from tidelog.storage.ports import Disk, DiskError, FileMissing
from tidelog.storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from tidelog.storage.segment import CorruptSegment, Segment
from tidelog.storage.segments import Segments
from tidelog.storage.txn_index import AbortedTxn, CorruptTxnIndex
from tidelog.storage.validation import AppendOrigin, validate_for_leader
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import NO_TIMESTAMP, BatchHeader, stamp
from tidelog.wire.records.compression import DEFAULT_MAX_OUTPUT


class Log:
    """Invariant: log_start_offset <= high_watermark <= log_end_offset; recovery_point <= log_end_offset."""

    __slots__ = (
        "_entries_dirty",
        "_entries_made",
        "_last_flush_ms",
        "_metadata_written",
        "_rng",
        "abandoned",
        "config",
        "dir",
        "directory",
        "disk",
        "doomed",
        "epochs",
        "first_dirty_offset",
        "flush_before_roll",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "max_decompressed_bytes",
        "producers",
        "recovery_bytes_cut",
        "recovery_notes",
        "recovery_point",
        "segments",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        loaded: recovery.LoadedLog,
        recovery_point: int,
        producers: ProducerStateManager,
        now_ms: int,
        rng: random.Random | None,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.dir = path
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.segments: Segments = loaded.segments
        self.epochs: EpochCache = loaded.epochs
        self.producers = producers
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = min(recovery_point, loaded.log_end_offset)
        self.recovery_notes: list[str] = loaded.notes
        self.recovery_bytes_cut = loaded.bytes_cut
        # Cuts so far: a flush that began before one says nothing about what was written after it.
        self.truncations = 0
        self.doomed: deque[retention.DoomedSegment] = deque()
        # Its directory has another name now, and a new log may have the old one.
        self.abandoned = False
        # Where the cleaner goes on; None if it never was here.
        self.first_dirty_offset: int | None = None
        # A torn tail then only ever stands in the last segment: the metadata log takes any other for damage.
        self.flush_before_roll = False
        self._metadata_written = False
        # Directories with entries that a crash could lose.
        self._entries_dirty: list[str] = []
        self._entries_made = 0
        self._last_flush_ms = now_ms
        self._rng = rng
        self.max_decompressed_bytes = DEFAULT_MAX_OUTPUT

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: UUID | None = None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        high_watermark: int = 0,
        clean_shutdown: bool,
        now_ms: int,
        directory: LogDirectory | None = None,
        rng: random.Random | None = None,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        max_decompressed_bytes: int = DEFAULT_MAX_OUTPUT,
        loaded: recovery.LoadedLog | None = None,
    ) -> Self:
        """Creates or recovers the log in `path`, or takes it as it was `loaded`. `rng` spreads segment rolls."""
        metadata_path = f"{path}/{checkpoints.PARTITION_METADATA}"
        known_id = checkpoints.read_partition_metadata(disk, metadata_path)
        if topic_id is not None and known_id is not None and topic_id != known_id:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{path} belongs to topic id {known_id}, not {topic_id}",
            )
        loaded = loaded or recovery.load(
            disk,
            path,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            index_interval=config.index_interval_bytes,
            now_ms=now_ms,
        )
        producers = ProducerStateManager(
            disk, path, topic_partition, producer_id_expiration_ms=producer_id_expiration_ms
        )
        log = cls(
            disk,
            directory or LogDirectory(path.rpartition("/")[0]),
            path,
            topic_partition,
            topic_id or known_id,
            config,
            loaded,
            recovery_point,
            producers,
            now_ms,
            rng,
        )
        log.max_decompressed_bytes = max_decompressed_bytes
        log._metadata_written = known_id is not None
        if loaded.created or not loaded.clean_shutdown or log.log_end_offset == 0:
            # Names made now, or by a process that did not live to sync them, or had nothing to sync (`close`).
            log._entries_dirty += [log.directory.path, path]
        log_producers.load(log, now_ms, None if loaded.clean_shutdown else recovery_point)
        log.update_high_watermark(high_watermark)
        return log

    # -- offsets

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes()

    @property
    def last_stable_offset(self) -> int:
        """Where a `read_committed` reader stops: the first open transaction, or the high watermark."""
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(self.high_watermark, unstable)

    def update_high_watermark(self, offset: int) -> int:
        """Sets it, clamped to [log start, log end] (W3); whether it may go back is the caller's rule. Returns it."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def set_log_end_offset(self, offset: int) -> None:
        """After a cut: what lies above the new end is pulled down with it."""
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        if not self.log_start_offset <= self.high_watermark <= offset:
            self.update_high_watermark(self.high_watermark)

    def raise_log_start_offset(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if offset > self.segments[0].base_offset:
                self.directory.log_starts_unwritten = True
            self.epochs.truncate_from_start(offset)
            self.producers.on_log_start_increment(offset)
        if self.high_watermark < self.log_start_offset:
            self.update_high_watermark(self.log_start_offset)

    def increment_log_start_offset(self, offset: int) -> bool:
        """DeleteRecords: records below `offset` are gone for readers; whether it moved. Not beyond the HW."""
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot delete below {offset}: the high watermark of {self.topic_partition} is {self.high_watermark}",
            )
        moves = offset > self.log_start_offset
        if moves:
            self.check()
            self.raise_log_start_offset(offset)
        # Also if it does not: as a follower this log may have heard of it a moment ago.
        self.directory.write_log_starts()
        return moves

    # -- appending

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        allow_zstd: bool = True,
    ) -> AppendInfo:
        """Validates (P5), assigns offsets, stamps the epoch and writes one batch; `records` is patched in place."""
        if self.abandoned or self.directory.failure is not None:
            self.check()
        validated = validate_for_leader(
            records,
            self.config,
            now_ms,
            origin,
            allow_zstd=allow_zstd,
            max_decompressed=self.max_decompressed_bytes,
        )
        header = validated.header
        has_producer = header.producer_id >= 0
        if has_producer:
            duplicate = self.producers.check(header, origin, validated.records)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp,
                    # When the first one was appended, not this one.
                    duplicate.timestamp if validated.log_append_time >= 0 else NO_TIMESTAMP,
                    self.log_start_offset,
                    0,
                    duplicate=True,
                )
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        stamp(validated.records, first_offset, leader_epoch)
        size = len(validated.records)
        max_timestamp = header.max_timestamp
        try:
            segment = self._segment_for(first_offset, last_offset, size, max_timestamp, now_ms)
            segment.write(validated.records)
            segment.note_batch(first_offset, last_offset, size, max_timestamp, self.config.index_interval_bytes)
            if leader_epoch != self.epochs.latest_epoch:
                self.epochs.assign(leader_epoch, first_offset)
            if has_producer:
                header = header._replace(base_offset=first_offset, partition_leader_epoch=leader_epoch)
                log_producers.update(self.producers, segment, header, validated.records, now_ms)
            self.log_end_offset = last_offset + 1
            if last_offset + 1 - self.recovery_point >= self.config.flush_messages:
                self.flush(now_ms)
        except DiskError as error:
            self.directory.fail(error)
            raise
        return AppendInfo(
            first_offset, last_offset, max_timestamp, validated.log_append_time, self.log_start_offset, size
        )

    def append_as_follower(self, records: memoryview, now_ms: int, *, leader_epoch: int | None = None) -> AppendInfo:
        """Batches exactly as the leader stamped them, in one append; see `log_following` for what is refused."""
        self.check()
        batches = log_following.batches_to_append(self, records, leader_epoch)
        if not batches:
            raise ValueError("a follower was handed no batch")
        position, last = batches[-1]
        size = position + last.size_in_bytes
        newest = max([header.max_timestamp for _, header in batches])
        try:
            if self._is_due_to_roll(size, last.last_offset, newest, now_ms):
                self._append_batches(records[:size], batches, now_ms)
            else:
                self._append_run(records[:size], batches, now_ms)
            if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
                self.flush(now_ms)
        except DiskError as error:
            self.directory.fail(error)
            raise
        return AppendInfo(batches[0][1].base_offset, last.last_offset, newest, -1, self.log_start_offset, size)

    def _append_batches(self, records: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: int) -> None:
        """One write per segment: a fetch may bring more than the active one has room for."""
        pending: list[tuple[int, BatchHeader]] = []
        start = 0
        for position, header in batches:
            end = position + header.size_in_bytes
            if self._is_due_to_roll(end - start, header.last_offset, header.max_timestamp, now_ms) and (
                pending or self.segments.active.size
            ):
                self._append_run(records[start:position], pending, now_ms)
                # At the log end even if the leader's compaction left a hole before this batch: recovery goes by
                # segments that join. Only a hole too wide for relative offsets starts the segment behind it.
                far = header.last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET
                self.roll(now_ms, header.base_offset if far else None)
                pending, start = [], position
            pending.append((position, header))
        self._append_run(records[start:], pending, now_ms)

    def _append_run(self, records: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: int) -> None:
        if not batches:
            return
        if not self._metadata_written:
            self.write_partition_metadata()
        segment = self.segments.active
        segment.write(records)
        segment.note_batches(batches, self.config.index_interval_bytes)
        self.log_end_offset = batches[-1][1].next_offset
        start, latest_epoch = batches[0][0], self.epochs.latest_epoch
        for position, header in batches:
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.epochs.assign(latest_epoch, header.base_offset)
            if header.producer_id >= 0:
                batch = records[position - start : position - start + header.size_in_bytes]
                log_producers.update(self.producers, segment, header, batch, now_ms)

    def _segment_for(self, first_offset: int, last_offset: int, size: int, max_timestamp: int, now_ms: int) -> Segment:
        if not self._metadata_written:
            self.write_partition_metadata()
        if self._is_due_to_roll(size, last_offset, max_timestamp, now_ms) and self.segments.active.size:
            self.roll(now_ms, first_offset)
        return self.segments.active

    def _is_due_to_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        segment, config = self.segments.active, self.config
        return (
            segment.size + size > config.segment_bytes
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.waited_for_roll_ms(now_ms, max_timestamp) > config.max_segment_ms - segment.jitter_ms
            or segment.is_index_full(config.segment_index_bytes)
        )

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Closes the active segment and opens one at the log end (or at `base_offset`, if that is beyond)."""
        active = self.segments.active
        base = max(self.log_end_offset, base_offset or 0)
        self.check()
        if active.size == 0 and active.base_offset == base:
            return active
        if self.flush_before_roll and self.recovery_point < self.log_end_offset:
            self.flush(now_ms)
        try:
            # Names become durable in order: a crash may lose the newest segment, never one before it.
            self.sync_entries()
            active.become_inactive()
            if self.recovery_point >= self.log_end_offset:
                # No flush will come back to this segment, and from now on its indexes are trusted.
                for sync in active.index_syncs():
                    sync()
            # Synced with the next flush: until then a torn one is found by its CRC, and more batches are replayed.
            self.producers.take_snapshot(base, sync=False)
            return self.add_segment(Segment.create(self.disk, self.dir, base, now_ms, self.draw_jitter()))
        except DiskError as error:
            self.directory.fail(error)
            raise

    def add_segment(self, segment: Segment) -> Segment:
        self.segments.add(segment)
        self._entries_dirty.append(self.dir)
        self._entries_made += 1
        return segment

    def draw_jitter(self) -> int:
        """Spreads the rolls of logs that started together over `segment.jitter.ms`."""
        jitter = min(self.config.segment_jitter_ms, self.config.max_segment_ms)
        return self._rng.randrange(jitter) if self._rng is not None and jitter > 0 else 0

    # -- reading

    def read(self, start_offset: int, max_bytes: int, *, upper_bound: int, min_one: bool) -> LogSlice:
        """Whole batches from the one that holds `start_offset`; see `log_reader.read`."""
        try:
            return log_reader.read(self, start_offset, max_bytes, upper_bound, min_one)
        except CorruptSegment as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record not earlier than `timestamp`."""
        try:
            return log_reader.offset_for_timestamp(self, timestamp)
        except CorruptSegment as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def offset_for_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        try:
            return log_reader.offset_for_max_timestamp(self)
        except CorruptSegment as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Those a `read_committed` reader of [start_offset, upper_bound) must skip (F1)."""
        try:
            return log_producers.aborted_transactions(self, start_offset, upper_bound)
        except CorruptTxnIndex as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def end_of(self, found: LogSlice) -> int:
        """An offset that no batch of the slice reaches: where its segment ends."""
        following = self.segments.after_offset(found.segment_base_offset)
        return self.log_end_offset if following is None else following.base_offset

    # -- epochs

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """A new leader opens its epoch at its log end, without cutting anything (E4)."""
        self.epochs.assign(epoch, offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """Rule E2; (-1, -1) is "not known here"."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def write_epochs(self) -> None:
        if self.epochs.dirty:
            path = f"{self.dir}/{checkpoints.LEADER_EPOCH_CHECKPOINT}"
            self.disk.write_atomic(path, checkpoints.epochs_text(self.epochs.entries))
            self.epochs.dirty = False

    # -- cutting and deleting

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        self.check()
        try:
            return log_truncation.truncate_to(self, offset, now_ms)
        except DiskError as error:
            self.directory.fail(error)
            raise

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        self.check()
        try:
            log_truncation.truncate_fully_and_start_at(self, offset, now_ms)
        except DiskError as error:
            self.directory.fail(error)
            raise

    def delete_old_segments(self, now_ms: int) -> int:
        self.check()
        try:
            return retention.delete_old_segments(self, now_ms)
        except DiskError as error:
            self.directory.fail(error)
            raise

    def remove_deleted_files(self, now_ms: int | None) -> None:
        """Those whose time has come (with None: all that wait), here and now."""
        for path in retention.take_due(self, now_ms):
            self.disk.remove(path)

    # -- durability

    def needs_flush(self, now_ms: int) -> bool:
        """Whether `flush.ms` has passed over unflushed records, or a closed segment waits for its fsync."""
        if self.recovery_point >= self.log_end_offset:
            return False
        waited = now_ms - self._last_flush_ms >= self.config.flush_ms
        return waited or self.recovery_point < self.segments.active.base_offset

    def begin_flush(self) -> FlushTask:
        """What must reach the disk; see `log_flush`. Of an abandoned log, nothing."""
        self.directory.check()
        syncs: list[Callable[[], None]] = []
        active = self.segments.active
        if self.abandoned:
            return FlushTask(self.disk, self.directory, syncs, [], self.recovery_point, active.base_offset, -1, -1)
        for segment in self.segments.from_offset(self.recovery_point):
            syncs += segment.syncs(active=segment is active)
        syncs += self.producers.snapshot_syncs()
        self.write_epochs()
        return FlushTask(
            self.disk,
            self.directory,
            syncs,
            # Dirty until that is done: a roll or a flush that comes first must not take these names for durable.
            sorted(set(self._entries_dirty)),
            self.log_end_offset,
            active.base_offset,
            self._entries_made,
            self.truncations,
        )

    def complete_flush(self, task: FlushTask, now_ms: int) -> None:
        self._last_flush_ms = now_ms
        if task.entries_made == self._entries_made:
            self._entries_dirty = []
        if task.truncations == self.truncations:
            rolled = task.active_base_offset != self.segments.active.base_offset
            durable = min(task.offset, task.active_base_offset) if rolled else task.offset
            self.recovery_point = max(self.recovery_point, durable)

    def flush(self, now_ms: int) -> None:
        """Everything up to the log end, durable when this returns."""
        try:
            task = self.begin_flush()
            task.run()
            # Only the first fsync after a lost page fails, and that may have been another thread's.
            self.directory.check()
        except DiskError as error:
            self.directory.fail(error)
            raise
        self.complete_flush(task, now_ms)

    def sync_entries(self) -> None:
        """Makes created segments' names durable: before a newer one is made, or an older one deleted."""
        dirs, self._entries_dirty = self._entries_dirty, []
        for path in sorted(set(dirs)):
            self.disk.fsync_dir(path)

    def write_partition_metadata(self) -> None:
        """Before the first record: it must never be taken for a record of a later topic of the same name."""
        if self.topic_id is not None:
            checkpoints.write_partition_metadata(
                self.disk, f"{self.dir}/{checkpoints.PARTITION_METADATA}", self.topic_id
            )
        self._metadata_written = True

    def close(self, now_ms: int) -> None:
        """Flushes everything, so that the next start may trust the files. The log is not used again."""
        self.directory.check()
        try:
            active = self.segments.active
            active.become_inactive()
            if self.log_end_offset > self.log_start_offset:
                self.producers.take_snapshot(self.log_end_offset)
            # Of one that never did nothing need be durable: should it be gone after a power cut, it is made again.
            held_anything = self._metadata_written or self.log_end_offset > 0
            unflushed = self.recovery_point < self.log_end_offset or self.epochs.dirty or self._entries_dirty
            if held_anything and unflushed:
                self.flush(now_ms)
            syncs = active.index_syncs() + self.producers.snapshot_syncs()
            for sync in syncs:
                sync()
            if syncs:
                self.disk.fsync_dir(self.dir)
            self.remove_deleted_files(None)
        except DiskError as error:
            self.directory.fail(error)
            raise
        self.close_files()

    def delete(self) -> None:
        """Everything off the disk, at once (a partition's own way is `LogManager.delete`)."""
        self.close_files()
        self.disk.remove_tree(self.dir)

    def check(self) -> None:
        """Refuses where nothing may be written: the directory failed, or this log is no longer in it."""
        self.directory.check()
        if self.abandoned:
            raise FileMissing(self.dir)

    def abandon(self) -> None:
        """Its directory gets another name. Whoever still holds the log must not write: files open again by path."""
        self.abandoned = True
        self.close_files()

    def close_files(self) -> None:
        """Gives every descriptor back without writing anything."""
        for segment in self.all_segments():
            segment.close_files()

    def all_segments(self) -> list[Segment]:
        """Those that were deleted and whose files are still there, too."""
        return [*self.segments, *(waiting.segment for waiting in self.doomed)]
