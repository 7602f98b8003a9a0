"""One of a node's log directories: its lock, its checkpoints, its clean-shutdown marker, the logs in it."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from tidelog.core.ids import TopicPartition
from tidelog.storage import checkpoints
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.log_names import DELETE_SUFFIX, partition_of
from tidelog.storage.ports import Disk, DiskError, Lock
from tidelog.storage.segment import CorruptSegment

LOCK_FILE = ".lock"

Offsets = dict[TopicPartition, int]


class ManagedDirectory:
    """`health` is shared with every log in here."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.health = LogDirectory(path)
        self.health.checkpoint_recovery_points = self.checkpoint_recovery_points
        self.health.checkpoint_log_start_offsets = self.checkpoint_log_start_offsets
        self.health.checkpoint_cleaner_offsets = self.checkpoint_cleaner_offsets
        self.health.lower_high_watermark = self.lower_high_watermark
        self.logs: dict[TopicPartition, Log] = {}
        # Whether these are all: the metadata log may live here too, and is cut and shortened before they are.
        self.loaded = False
        # The broker epoch of the last shutdown if it was clean, None if not.
        self.clean_epoch: int | None = None
        self._lock: Lock | None = None
        # What each checkpoint file says, so that an idle node writes nothing.
        self._written: dict[str, Offsets] = {}
        self._not_durable: set[str] = set()

    @property
    def online(self) -> bool:
        return self.health.online

    def open(self) -> None:
        """Takes the lock and reads what the last process left. AlreadyLocked if there is another one."""
        self.disk.make_dirs(self.path)
        self._lock = self.disk.lock(f"{self.path}/{LOCK_FILE}")
        self.clean_epoch = checkpoints.read_clean_shutdown(self.disk, self._file(checkpoints.CLEAN_SHUTDOWN))
        for name in (
            checkpoints.RECOVERY_POINT_CHECKPOINT,
            checkpoints.LOG_START_OFFSET_CHECKPOINT,
            checkpoints.REPLICATION_OFFSET_CHECKPOINT,
            checkpoints.CLEANER_OFFSET_CHECKPOINT,
        ):
            self._written[name] = self._read_offsets(name)
        if self.clean_epoch is None:
            # Who wrote it did not live to sync it.
            self._not_durable.add(checkpoints.REPLICATION_OFFSET_CHECKPOINT)

    def _read_offsets(self, name: str) -> Offsets:
        try:
            return checkpoints.read_offsets(self.disk, self._file(name))
        except checkpoints.CorruptCheckpoint:
            if name != checkpoints.REPLICATION_OFFSET_CHECKPOINT:
                raise
            # Written without an fsync, so a power cut may have left half of it; high watermarks are found again.
            return {}

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A failure inside takes this directory offline, and is told as a DiskError.

        Files that contradict themselves are as bad as a disk that cannot be read. A newer format is neither: it
        passes, and ends the start.
        """
        try:
            yield
        except DiskError as error:
            self.health.fail(error)
            raise
        except (CorruptSegment, checkpoints.CorruptCheckpoint) as error:
            failure = DiskError(errno.EIO, str(error), self.path)
            self.health.fail(failure)
            raise failure from error

    @contextmanager
    def contained(self) -> Iterator[None]:
        """As `failing`, and the failure goes no further: the other directories live on."""
        with suppress(DiskError), self.failing():
            yield

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    # -- what is in it

    def partitions(self) -> Iterator[TopicPartition]:
        """Partitions with a directory here, by name."""
        for name in self.disk.list_dir(self.path):
            partition = partition_of(name)
            if partition is not None and self.disk.is_dir(self._file(name)):
                yield partition

    def doomed(self) -> list[str]:
        """Directories of deleted partitions that are still there."""
        return [self._file(name) for name in self.disk.list_dir(self.path) if name.endswith(DELETE_SUFFIX)]

    def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        path = f"{self.path}/{partition}/{checkpoints.PARTITION_METADATA}"
        return checkpoints.read_partition_metadata(self.disk, path)

    def remembered(self, partition: TopicPartition) -> tuple[int, int, int]:
        """Recovery point, log start offset and high watermark as checkpointed; 0 where nothing is."""
        return (
            self._written[checkpoints.RECOVERY_POINT_CHECKPOINT].get(partition, 0),
            self._written[checkpoints.LOG_START_OFFSET_CHECKPOINT].get(partition, 0),
            self._written[checkpoints.REPLICATION_OFFSET_CHECKPOINT].get(partition, 0),
        )

    def first_dirty_offset(self, partition: TopicPartition) -> int | None:
        """Up to where the cleaner had come."""
        return self._written[checkpoints.CLEANER_OFFSET_CHECKPOINT].get(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Before a new log takes the name of a deleted one: it must not inherit offsets from it."""
        # A high watermark that is not in the file as it is now may be in the one that a power cut brings back.
        unsure = checkpoints.REPLICATION_OFFSET_CHECKPOINT in self._not_durable
        if unsure or any(partition in written for written in self._written.values()):
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            self.checkpoint_high_watermarks()
            self.checkpoint_cleaner_offsets()

    # -- checkpoints

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint(checkpoints.RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self, *, durable: bool = True) -> None:
        self._checkpoint(checkpoints.REPLICATION_OFFSET_CHECKPOINT, lambda log: log.high_watermark, durable=durable)

    def lower_high_watermark(self, partition: TopicPartition, offset: int) -> None:
        """Before a cut at `offset`: what is written behind it was never committed, whatever the file said of it."""
        name = checkpoints.REPLICATION_OFFSET_CHECKPOINT
        if name in self._not_durable or self._written[name].get(partition, 0) > offset:
            self.checkpoint_high_watermarks()

    def checkpoint_clamped_high_watermarks(self) -> None:
        """After loading: a log that lost its end grows again, perhaps with other records than were committed there."""
        written = self._written[checkpoints.REPLICATION_OFFSET_CHECKPOINT]
        if any(log.high_watermark < written.get(partition, 0) for partition, log in self.logs.items()):
            self.checkpoint_high_watermarks()

    def checkpoint_log_start_offsets(self) -> None:
        """Only where the start is not simply that of the first segment."""
        self._checkpoint(
            checkpoints.LOG_START_OFFSET_CHECKPOINT,
            lambda log: log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None,
        )

    def checkpoint_cleaner_offsets(self) -> None:
        self._checkpoint(checkpoints.CLEANER_OFFSET_CHECKPOINT, lambda log: log.first_dirty_offset)

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None], *, durable: bool = True) -> None:
        # What is remembered of logs that are not loaded yet stays.
        offsets: Offsets = {} if self.loaded else dict(self._written.get(name, {}))
        for partition, log in self.logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets[partition] = offset
            else:
                offsets.pop(partition, None)
        if offsets != self._written.get(name) or (durable and name in self._not_durable):
            checkpoints.write_offsets(self.disk, self._file(name), offsets, durable=durable)
            self._written[name] = offsets
            if durable:
                self._not_durable.discard(name)
            else:
                self._not_durable.add(name)

    # -- the marker of a clean shutdown (C5)

    def remove_marker(self) -> None:
        """Durably gone before the first append: a crash from here on is not a clean shutdown."""
        path = self._file(checkpoints.CLEAN_SHUTDOWN)
        if self.disk.exists(path):
            self.disk.remove(path)
            self.disk.fsync_dir(self.path)

    def write_marker(self, broker_epoch: int) -> None:
        # A flush that began before the shutdown may have failed meanwhile, on its own thread.
        self.health.check()
        checkpoints.write_clean_shutdown(self.disk, self._file(checkpoints.CLEAN_SHUTDOWN), broker_epoch)
