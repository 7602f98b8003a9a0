"""The log of `__cluster_metadata-0` and its snapshots, as one thing: a history that may start at a snapshot.

A storage `Log` below; on top of it what a quorum needs: refusing a directory that cannot be trusted, batches as values,
snapshots, and dropping what a snapshot has made superfluous (Q6).
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from tidelog.quorum.control_records import ControlMessage, decode_control
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.integrity import refuse_damage
from tidelog.quorum.snapshot_download import SnapshotDownload
from tidelog.quorum.snapshot_files import (
    SnapshotId,
    SnapshotReader,
    list_snapshots,
    remove_unfinished,
    write_snapshot,
)
from tidelog.quorum.voters import VoterSet
from tidelog.storage import checkpoints
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.log_flush import FlushTask
from tidelog.storage.ports import Disk
from tidelog.storage.segment import LOG_SUFFIX, CorruptSegment
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BatchHeader, iter_headers
from tidelog.wire.records.plain import decode_batch

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_READ_BYTES: Final = 1 << 20


def partition_dir(metadata_dir: str) -> str:
    """Where the log, its snapshots and `quorum-state` stand."""
    return f"{metadata_dir}/{METADATA_PARTITION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """Kafka's `metadata.log.*` and `metadata.max.*` keys, and the limit of one batch."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    max_batch_bytes: int = 8 << 20
    max_bytes_between_snapshots: int = 20 << 20
    max_snapshot_interval_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One batch: the values of the quorum's user, or what the quorum says about itself; never both."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    values: tuple[bytes, ...]
    control: tuple[ControlMessage, ...]


class MetadataLog:
    """Invariant: log start <= newest snapshot's end offset <= log end; below the log start a snapshot stands in."""

    def __init__(self, disk: Disk, log: Log, config: MetadataLogConfig, snapshots: list[SnapshotId]) -> None:
        self._disk = disk
        self.log = log
        self.config = config
        self._snapshots = snapshots

    @classmethod
    def open(
        cls,
        disk: Disk,
        metadata_dir: str,
        config: MetadataLogConfig,
        *,
        newest_epoch: int,
        now_ms: int,
        directory: LogDirectory | None = None,
        rng: random.Random | None = None,
    ) -> "MetadataLog":
        """Recovers the log below `metadata_dir`. QuorumError if what is there cannot be trusted.

        `newest_epoch` is that of `quorum-state`: no record can be of a newer one.
        """
        path = partition_dir(metadata_dir)
        if not disk.is_dir(path):
            disk.make_dirs(path)
            # A vote is no safer than the directory it stands in.
            disk.fsync_dir(metadata_dir)
        remove_unfinished(disk, path)
        refuse_damage(disk, path, newest_epoch)
        snapshots = _standing_snapshots(disk, path)
        newest = snapshots[-1].end_offset if snapshots else 0
        # What is known to have been durable; a log that ends before it has lost something.
        durable = checkpoints.read_offsets(disk, f"{path}/{checkpoints.RECOVERY_POINT_CHECKPOINT}")
        topic_config = TopicConfig(
            cleanup_policy=(),
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            max_message_bytes=config.max_batch_bytes,
        )
        try:
            log = Log.open(
                disk,
                path,
                METADATA_PARTITION,
                topic_config,
                topic_id=METADATA_TOPIC_ID,
                log_start_offset=snapshots[0].end_offset if snapshots else 0,
                recovery_point=durable.get(METADATA_PARTITION, 0),
                clean_shutdown=False,
                now_ms=now_ms,
                directory=directory,
                rng=rng,
            )
        except (CorruptSegment, checkpoints.StorageFormatError) as error:
            raise QuorumError(f"the metadata log is damaged: {error}") from error
        if log.log_start_offset > newest:
            raise QuorumError(
                f"{path} starts at offset {log.log_start_offset} and no snapshot covers the records before it"
            )
        log.flush_before_roll = True
        opened = cls(disk, log, config, snapshots)
        if log.log_start_offset < newest and (log.log_end_offset < newest or log.latest_epoch < snapshots[-1].epoch):
            # A snapshot fetched from a leader was in place before the log could be emptied for it.
            opened._lower_checkpoint(0)
            log.truncate_fully_and_start_at(newest, now_ms)
        return opened

    # --- where it stands ---

    @property
    def path(self) -> str:
        return self.log.dir

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def durable_end_offset(self) -> int:
        """Everything below is on stable storage. After a start nothing is known to be but what was written down."""
        return self.log.recovery_point

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record: of the log, or of the snapshot when the log is empty."""
        newest = self.latest_snapshot
        return max(self.log.latest_epoch, 0 if newest is None else newest.epoch)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot_epoch(self) -> int:
        """The epoch of the last record before the log's start, when that is not 0."""
        return self._snapshots[0].epoch if self._snapshots else 0

    # --- writing ---

    def append(self, batch: bytes | memoryview, now_ms: int) -> int:
        """Writes a batch that carries its offset and epoch already; its last offset. Not durable before a flush."""
        return self.log.append_as_follower(memoryview(batch), now_ms).last_offset

    def begin_flush(self) -> FlushTask:
        """The task's `run` may block, on any thread."""
        return self.log.begin_flush()

    def complete_flush(self, task: FlushTask, now_ms: int) -> int:
        """Everything below the returned offset is durable; a cut since the task was made leaves nothing of it."""
        self.log.complete_flush(task, now_ms)
        return self.durable_end_offset

    def checkpoint_recovery_point(self) -> None:
        """Remembers how far the log is known to be durable: a shorter log is refused from then on."""
        path = f"{self.path}/{checkpoints.RECOVERY_POINT_CHECKPOINT}"
        checkpoints.write_offsets(self._disk, path, {METADATA_PARTITION: self.log.recovery_point})

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cuts what a leader does not have; where the log ends then. Invariant: never below the high watermark."""
        assert offset >= self.log.high_watermark, (offset, self.log.high_watermark)
        self._lower_checkpoint(offset)
        self.log.truncate_to(offset, now_ms)
        return self.log_end_offset

    def _lower_checkpoint(self, offset: int) -> None:
        """Before the cut: a start must not miss what was cut on purpose, nor trust what is written there later."""
        path = f"{self.path}/{checkpoints.RECOVERY_POINT_CHECKPOINT}"
        if checkpoints.read_offsets(self._disk, path).get(METADATA_PARTITION, 0) > offset:
            checkpoints.write_offsets(self._disk, path, {METADATA_PARTITION: offset})

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)
        self.checkpoint_recovery_point()

    # --- reading ---

    def batches(self, start_offset: int, upper_bound: int) -> Iterator[LogBatch]:
        """From the batch that holds `start_offset` up to `upper_bound`. QuorumError if one cannot be read."""
        for header, batch in self._raw(start_offset, upper_bound):
            yield _decoded(header, batch)

    def control_messages(self) -> Iterator[tuple[int, ControlMessage]]:
        """What the quorum said about itself, by offset, in the whole log; the records of its user are not decoded."""
        for batch in self.control_batches(self.log_start_offset, self.log_end_offset):
            yield from enumerate(batch.control, batch.base_offset)

    def control_batches(self, start_offset: int, upper_bound: int) -> Iterator[LogBatch]:
        """As `batches`, without those of the quorum's user."""
        for header, batch in self._raw(start_offset, upper_bound):
            if header.is_control:
                yield _decoded(header, batch)

    def bytes_from(self, start_offset: int) -> int:
        """How much log there is from `start_offset` on."""
        return sum(header.size_in_bytes for header, _ in self._raw(start_offset, self.log_end_offset))

    def _raw(self, start_offset: int, upper_bound: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        while start_offset < upper_bound:
            data = memoryview(self.log.read(start_offset, _READ_BYTES, upper_bound=upper_bound, min_one=True).read())
            if not data:
                return
            for position, header in iter_headers(data):
                yield header, data[position : position + header.size_in_bytes]
                start_offset = header.next_offset

    def open_snapshot(self, snapshot: SnapshotId) -> SnapshotReader:
        return SnapshotReader(self._disk, f"{self.path}/{snapshot.file_name}")

    # --- snapshots ---

    def write_snapshot(
        self,
        snapshot: SnapshotId,
        values: Iterable[bytes],
        *,
        last_contained_timestamp: int,
        now_ms: int,
        voters: VoterSet | None,
    ) -> None:
        """The file alone; blocking, on any thread. `on_snapshot_written` makes it count."""
        write_snapshot(
            self._disk,
            f"{self.path}/{snapshot.file_name}",
            values,
            epoch=snapshot.epoch,
            last_contained_timestamp=last_contained_timestamp,
            now_ms=now_ms,
            voters=voters,
        )

    def on_snapshot_written(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Invariant: a snapshot holds committed records only."""
        assert snapshot.end_offset <= self.log.high_watermark, (snapshot, self.log.high_watermark)
        if snapshot.end_offset < self.log_start_offset:
            # Meanwhile the leader's took the place of all that this one is about.
            self._disk.remove(f"{self.path}/{snapshot.file_name}")
            return
        if snapshot not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, snapshot])
        # What lies before the snapshot can be deleted one day only if it does not share a segment with what follows.
        self.log.roll(now_ms)
        self.checkpoint_recovery_point()

    def begin_download(self, snapshot: SnapshotId) -> SnapshotDownload:
        return SnapshotDownload(self._disk, self.path, snapshot)

    def install_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """The leader's snapshot has its name: it takes the place of the whole log, and of older snapshots.

        Invariant: the log's high watermark is at most the snapshot's end.
        """
        assert snapshot.end_offset >= self.log.high_watermark, (snapshot, self.log.high_watermark)
        self._lower_checkpoint(0)
        self.log.truncate_fully_and_start_at(snapshot.end_offset, now_ms)
        # Last: until here a start would still need the old ones, or find the log shorter than the new one and empty it.
        for old in self._snapshots:
            if old != snapshot:
                self._disk.remove(f"{self.path}/{old.file_name}")
        self._disk.fsync_dir(self.path)
        self._snapshots = [snapshot]

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """(size of the file, its bytes from `position` on); None if there is no such snapshot."""
        if snapshot not in self._snapshots:
            return None
        file = self._disk.open(f"{self.path}/{snapshot.file_name}")
        try:
            return file.size(), file.pread(max_bytes, position)
        finally:
            file.close()

    def clean(self, now_ms: int) -> int:
        """Drops the oldest snapshots and the log before the next one, while over the size or age kept; how many.

        The newest snapshot always stays, and so does everything behind the oldest one that stays.
        """
        dropped = 0
        while len(self._snapshots) > 1 and self._is_over_retention(now_ms):
            oldest, successor = self._snapshots[:2]
            # First the log, so that a crash in between leaves a snapshot too many, never a gap.
            self.log.increment_log_start_offset(successor.end_offset)
            self.log.delete_old_segments(now_ms)
            self.log.remove_deleted_files(now_ms)
            self._disk.remove(f"{self.path}/{oldest.file_name}")
            self._snapshots = self._snapshots[1:]
            dropped += 1
        if dropped:
            self._disk.fsync_dir(self.path)
        return dropped

    def _is_over_retention(self, now_ms: int) -> bool:
        files = (self._disk.file_size(f"{self.path}/{each.file_name}") for each in self._snapshots)
        if sum(files) + self.log.size_bytes > self.config.retention_bytes:
            return True
        # What the second snapshot holds was written before it: that is the age of everything the first one adds.
        reader = self.open_snapshot(self._snapshots[1])
        age_ms = now_ms - reader.head.last_contained_timestamp
        reader.close()
        return age_ms > self.config.retention_ms


def _standing_snapshots(disk: Disk, path: str) -> list[SnapshotId]:
    """Those that the log does not begin beyond; the others are removed.

    A crash in the middle of `clean` leaves one too many, and so does one that was written while the leader's took the
    place of the log. The oldest tells the epoch of the last record before the log's start: by a wrong one a follower
    would be given a snapshot for ever, or a log that differs from this one be taken for its beginning.
    """
    snapshots = list_snapshots(disk, path)
    bases = [int(name.removesuffix(LOG_SUFFIX)) for name in disk.list_dir(path) if name.endswith(LOG_SUFFIX)]
    first = min(bases, default=0)
    passed = [each for each in snapshots if each.end_offset < first]
    if len(passed) == len(snapshots):
        # Then nothing tells what came before the log: that is for the caller to refuse, with all that is there.
        return snapshots
    for each in passed:
        disk.remove(f"{path}/{each.file_name}")
    if passed:
        disk.fsync_dir(path)
    return snapshots[len(passed) :]


def _decoded(header: BatchHeader, batch: memoryview) -> LogBatch:
    try:
        _, records = decode_batch(batch)
        return LogBatch(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            header.max_timestamp,
            () if header.is_control else tuple(record.value or b"" for record in records),
            tuple(decode_control(record) for record in records) if header.is_control else (),
        )
    except WireError as error:
        raise QuorumError(f"the metadata log cannot be read at offset {header.base_offset}: {error}") from error
