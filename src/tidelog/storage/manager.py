"""Every log of a node, over its log directories.

The order of a life: `open` (locks), `load` (recovers every log; the clean-shutdown markers are then gone), work,
`close_cleanly` (flush all, checkpoint all, and only then the markers). A directory that fails takes its own logs
offline and no others (C10).
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final
from uuid import UUID

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.events import CommittedRecordsLost, EventSink, LogDirectoryOffline, LogRecovered, LogsLoading
from tidelog.core.ids import METADATA_TOPIC, TopicPartition, random_uuid
from tidelog.storage import recovery, retention
from tidelog.storage.checkpoints import CorruptCheckpoint
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.log_names import DELETE_SUFFIX, STRAY_SUFFIX, set_aside_name
from tidelog.storage.managed_directory import ManagedDirectory
from tidelog.storage.ports import Disk, DiskError

# Whether a log (by its partition and its topic's id) belongs to this broker.
IsOurs = Callable[[TopicPartition, UUID | None], bool]
HomeOf = Callable[[TopicPartition], str | None]
# Logs between two lines that say how far the start has come.
_PROGRESS_EVERY: Final = 1000

# Runs every piece of work, in any order, and raises the first failure when all have ended.
RunAll = Callable[[Sequence[Callable[[], None]]], None]


def run_in_turn(work: Sequence[Callable[[], None]]) -> None:
    for piece in work:
        piece()


class LogManager:
    """Invariant: a partition has one log, in one directory."""

    def __init__(
        self, disk: Disk, config: NodeConfig, rng: random.Random, *, on_event: EventSink = lambda event: None
    ) -> None:
        self._disk = disk
        self._config = config
        self._rng = rng
        self._on_event = on_event
        self._directories = {path: ManagedDirectory(disk, path) for path in dict.fromkeys(config.log_dirs)}
        self._homes: dict[TopicPartition, ManagedDirectory] = {}
        # Directories of deleted partitions -> when their files may go (None: not yet decided).
        self._doomed: dict[str, int | None] = {}
        # Told once for each directory that goes offline.
        self.on_directory_offline: Callable[[LogDirectory, DiskError], None] = lambda directory, error: None
        for directory in self._directories.values():
            directory.health.on_failure = self._directory_failed

    def apply_config(self, config: NodeConfig) -> None:
        """Dynamic values that logs and their removal go by."""
        self._config = config
        for log in self:
            log.producers.producer_id_expiration_ms = config.producer_id_expiration_ms
            log.max_decompressed_bytes = config.tidelog_decompression_max_bytes

    # -- directories

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(self._directories)

    def is_online(self, path: str) -> bool:
        return self._directories[path].online

    def health(self, path: str) -> LogDirectory:
        """The state that logs of this directory share (the metadata log may live in it, too)."""
        return self._directories[path].health

    def directory_of(self, log_path: str) -> str:
        """The log directory in which a log's own directory lies."""
        return log_path.rpartition("/")[0]

    def space(self, path: str) -> tuple[int, int]:
        """Total and free bytes of the file system below a directory."""
        return self._disk.total_bytes(path), self._disk.free_bytes(path)

    def fail_directory(self, path: str, error: DiskError) -> None:
        """Takes a directory offline; nothing in it is written again before a restart."""
        self._directories[path].health.fail(error)

    def _directory_failed(self, health: LogDirectory, error: DiskError) -> None:
        self._on_event(LogDirectoryOffline(directory=health.path, reason=str(error)))
        self.on_directory_offline(health, error)

    @property
    def any_online(self) -> bool:
        return bool(self._online())

    def _online(self) -> list[ManagedDirectory]:
        return [directory for directory in self._directories.values() if directory.online]

    # -- starting

    def open(self, unreadable: Mapping[str, DiskError] = MappingProxyType({})) -> None:
        """Locks every directory. AlreadyLocked and NewerFormat end the start; a broken disk only its directory.

        `unreadable`: nobody knows which directories these are, so that they stay offline even if they can be read now.
        """
        for directory in self._directories.values():
            with directory.contained():
                if directory.path in unreadable:
                    raise unreadable[directory.path]
                directory.open()
        if not self._online():
            raise next(iter(self._directories.values())).health.failure or AssertionError("no log directory")

    def load(
        self,
        config_of: Callable[[str], TopicConfig],
        now_ms: int,
        *,
        is_ours: IsOurs = lambda partition, topic_id: True,
        home_of: HomeOf = lambda partition: None,
    ) -> None:
        """As `load_stepwise`, at once."""
        for _ in self.load_stepwise(config_of, now_ms, is_ours=is_ours, home_of=home_of):
            pass

    def load_stepwise(
        self,
        config_of: Callable[[str], TopicConfig],
        now_ms: int,
        *,
        is_ours: IsOurs = lambda partition, topic_id: True,
        home_of: HomeOf = lambda partition: None,
    ) -> Iterator[None]:
        """Opens every log found, one at a time, a large one in several steps; `config_of` gives a topic's config.
        Afterwards appends may begin.

        What is not `ours` (by the partition and the id of its topic, None if the log never held a record) is set aside
        as ``-stray`` and kept: that the metadata does not know a log may also mean that it is the wrong metadata. So is
        what lies in two directories and not in its home, which is a directory's path, or None if nobody knows.
        """
        for directory in self._online():
            with directory.contained():
                self._doomed.update(dict.fromkeys(directory.doomed()))
                found = [partition for partition in directory.partitions() if partition.topic != METADATA_TOPIC]
                for loaded, partition in enumerate(found):
                    if loaded and loaded % _PROGRESS_EVERY == 0:
                        self._on_event(LogsLoading(directory=directory.path, loaded=loaded, total=len(found)))
                    yield from self._load(directory, partition, config_of, now_ms, is_ours, home_of)
                    yield
                directory.loaded = True
                directory.checkpoint_clamped_high_watermarks()
                directory.remove_marker()

    def _load(
        self,
        directory: ManagedDirectory,
        partition: TopicPartition,
        config_of: Callable[[str], TopicConfig],
        now_ms: int,
        is_ours: IsOurs,
        home_of: HomeOf,
    ) -> Generator[None, None, None]:
        topic_id = directory.topic_id_of(partition)
        if topic_id is not None and not is_ours(partition, topic_id):
            self._rename(directory, partition, STRAY_SUFFIX)
        elif self._is_left_over(partition, topic_id, is_ours):
            self._doomed[self._rename(directory, partition, DELETE_SUFFIX)] = None
        elif self._is_at_home(directory, partition, home_of):
            yield from self._load_one(directory, partition, config_of(partition.topic), now_ms)
        else:
            self._rename(directory, partition, STRAY_SUFFIX)

    def _is_left_over(
        self,
        partition: TopicPartition,
        topic_id: UUID | None,
        is_ours: IsOurs,
    ) -> bool:
        """Empty, and of a topic that is gone or a twin: made again elsewhere while this directory was offline."""
        if topic_id is None and not is_ours(partition, topic_id):
            return True
        twin = self.get(partition)
        if twin is not None and twin.topic_id is None:
            # The id is on disk before the first record is.
            # A failure is of the twin's directory, which is offline then: this one has nothing to do with it.
            with suppress(DiskError):
                self.delete(partition)
            return False
        return twin is not None and topic_id is None

    def _is_at_home(self, directory: ManagedDirectory, partition: TopicPartition, home_of: HomeOf) -> bool:
        """Of twins one was left in a directory that was offline when the partition was taken away and came back."""
        twin = self._homes.get(partition)
        if twin is None:
            return True
        home = home_of(partition)
        if home == directory.path:
            with suppress(DiskError):
                self._set_aside(partition, STRAY_SUFFIX)
        elif home != twin.path:
            raise CorruptCheckpoint(directory.path, f"{partition} is also in {twin.path}")
        return home == directory.path

    def _load_one(
        self, directory: ManagedDirectory, partition: TopicPartition, config: TopicConfig, now_ms: int
    ) -> Generator[None, None, None]:
        recovery_point, log_start_offset, _ = directory.remembered(partition)
        loaded = yield from recovery.load_stepwise(
            self._disk,
            f"{directory.path}/{partition}",
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean_shutdown=directory.clean_epoch is not None,
            index_interval=config.index_interval_bytes,
            now_ms=now_ms,
        )
        log = self._open_log(directory, partition, None, config, now_ms, loaded)
        if log.recovery_notes:
            self._on_event(
                LogRecovered(
                    topic=partition.topic,
                    partition=partition.partition,
                    log_start_offset=log.log_start_offset,
                    log_end_offset=log.log_end_offset,
                    bytes_cut=log.recovery_bytes_cut,
                    reason="; ".join(log.recovery_notes),
                )
            )
        _, _, high_watermark = directory.remembered(partition)
        if high_watermark > log.log_end_offset:
            # Other replicas may have them still. If none has, nobody but this checkpoint knows that they were there.
            self._on_event(
                CommittedRecordsLost(
                    topic=partition.topic,
                    partition=partition.partition,
                    old_end_offset=high_watermark,
                    new_end_offset=log.log_end_offset,
                    first_lost_offset=log.log_end_offset,
                    last_lost_offset=high_watermark - 1,
                    leader_epochs=(),
                    reason=f"the checkpointed high watermark is {high_watermark}, but the log ends before it",
                )
            )

    def _open_log(
        self,
        directory: ManagedDirectory,
        partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        now_ms: int,
        loaded: recovery.LoadedLog | None = None,
    ) -> Log:
        recovery_point, log_start_offset, high_watermark = directory.remembered(partition)
        log = Log.open(
            self._disk,
            f"{directory.path}/{partition}",
            partition,
            config,
            topic_id=topic_id,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
            clean_shutdown=directory.clean_epoch is not None,
            now_ms=now_ms,
            directory=directory.health,
            rng=self._rng,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
            max_decompressed_bytes=self._config.tidelog_decompression_max_bytes,
            loaded=loaded,
        )
        log.first_dirty_offset = directory.first_dirty_offset(partition)
        directory.logs[partition] = log
        self._homes[partition] = directory
        return log

    @property
    def clean_shutdown_epoch(self) -> int | None:
        """The broker epoch of the last shutdown, if every directory says it was clean and in the same epoch (C5)."""
        epochs = {directory.clean_epoch for directory in self._directories.values()}
        return epochs.pop() if len(epochs) == 1 else None

    # -- logs

    def __iter__(self) -> Iterator[Log]:
        for directory in self._online():
            yield from directory.logs.values()

    def get(self, partition: TopicPartition) -> Log | None:
        directory = self._homes.get(partition)
        return directory.logs.get(partition) if directory is not None else None

    def get_or_create(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        config: TopicConfig,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> Log:
        """The partition's log; a new one goes where the fewest are.

        While a directory is offline a log not found elsewhere may be in there, and is not made a second time unless
        the caller knows that the partition `is_new`.
        """
        home = self._homes.get(partition)
        if home is not None:
            home.health.check()
            log = home.logs[partition]
            if log.topic_id is None:
                log.topic_id = topic_id
            if log.topic_id == topic_id:
                log.config = config
                return log
            # A topic deleted and made again while we were down. Its records are not ours to delete: they are set aside.
            self._set_aside(partition, STRAY_SUFFIX)
        online = self._online()
        if not is_new or not online:
            for directory in self._directories.values():
                directory.health.check()
        directory = min(online, key=lambda candidate: len(candidate.logs))
        with directory.failing():
            directory.forget(partition)
            return self._open_log(directory, partition, topic_id, config, now_ms)

    def delete(self, partition: TopicPartition) -> None:
        """Out of sight at once, by a durable rename; the files go after `file.delete.delay.ms` (`remove_deleted`).

        In a directory that is offline they stay, and the next start finds that they are nobody's.
        """
        home = self._homes.get(partition)
        if home is None:
            return
        if not home.online:
            del self._homes[partition]
            home.logs.pop(partition).abandon()
            home.health.check()
        self._doomed[self._set_aside(partition, DELETE_SUFFIX)] = None

    def _set_aside(self, partition: TopicPartition, suffix: str) -> str:
        directory = self._homes.pop(partition)
        log = directory.logs.pop(partition)
        log.abandon()
        target = self._rename(directory, partition, suffix)
        for segment in log.all_segments():
            # A slice handed out before is read under the new name: a log made anew may have the old one by then.
            segment.moved_to(target + segment.path.removeprefix(log.dir))
        return target

    def _rename(self, directory: ManagedDirectory, partition: TopicPartition, suffix: str) -> str:
        target = f"{directory.path}/{set_aside_name(partition, random_uuid(self._rng).hex, suffix)}"
        with directory.failing():
            self._disk.rename(f"{directory.path}/{partition}", target)
        return target

    # -- passes, called by the shell's timers

    def logs_to_flush(self, now_ms: int) -> list[Log]:
        """For each: `begin_flush`, `FlushTask.run` away from the event loop, `complete_flush`."""
        return [log for log in self if log.needs_flush(now_ms)]

    def delete_old_segments(self, now_ms: int) -> int:
        """Retention over all logs; how many segments went."""
        deleted = 0
        for log in list(self):
            with suppress(DiskError):  # the log has taken its directory offline, and said so
                deleted += log.delete_old_segments(now_ms)
        return deleted

    def remove_expired_producers(self, now_ms: int) -> int:
        return sum(log.producers.remove_expired(now_ms) for log in self)

    def deleted_due(self, now_ms: int) -> list[str]:
        """Directories of deleted partitions whose time has come; the caller removes them (`Disk.remove_tree`)."""
        due = [path for path, at in self._doomed.items() if at is not None and at <= now_ms]
        for path, at in self._doomed.items():
            if at is None:
                self._doomed[path] = now_ms + self._config.log_segment_delete_delay_ms
        for path in due:
            del self._doomed[path]
        return due

    def deleted_files_due(self, now_ms: int) -> list[str]:
        """Files of deleted segments whose time has come; the caller removes them (`Disk.remove`)."""
        return [path for log in self for path in retention.take_due(log, now_ms)]

    def checkpoint_recovery_points(self) -> None:
        self._each(ManagedDirectory.checkpoint_recovery_points)

    def checkpoint_high_watermarks(self) -> None:
        """W4: after a crash the file is a lower bound, and so may be older or gone: nobody waits for an fsync of it."""
        self._each(lambda directory: directory.checkpoint_high_watermarks(durable=False))

    def checkpoint_log_start_offsets(self) -> None:
        self._each(ManagedDirectory.checkpoint_log_start_offsets)

    def _each(self, action: Callable[[ManagedDirectory], None]) -> None:
        for directory in self._online():
            with directory.contained():
                action(directory)

    # -- stopping

    def close_cleanly(self, broker_epoch: int, now_ms: int, *, run_all: RunAll = run_in_turn) -> None:
        """Flushes, checkpoints, and then says so; a directory that fails meanwhile gets no marker.

        Closing a log is waiting for fsyncs, and logs do not know of each other: `run_all` may do it side by side.
        """
        for directory in self._online():
            with directory.contained():
                run_all([partial(log.close, now_ms) for log in directory.logs.values()])
                directory.checkpoint_recovery_points()
                directory.checkpoint_log_start_offsets()
                directory.checkpoint_high_watermarks()
                directory.write_marker(broker_epoch)
        self.release()

    def release(self) -> None:
        """Gives the locks back without a word about how it ended."""
        for directory in self._directories.values():
            directory.release()
