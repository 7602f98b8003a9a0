"""What a broker does for its logs by the clock: flush, checkpoint, retain, clean, forget.

Blocking parts run off the loop.
"""

import asyncio
import logging
from collections.abc import Callable

from tidelog.broker.cleaning import CleaningPass
from tidelog.broker.periodic import Periodic
from tidelog.core.config.node import NodeConfig
from tidelog.core.ports import Offload, WallClock
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import Disk, DiskError

log = logging.getLogger("tidelog.storage")

# `log.flush.scheduler.interval.ms` is "never" by default; a closed segment wants its fsync sooner (the recovery point).
MAX_FLUSH_CHECK_S = 1.0
DELETED_CHECK_S = 10.0
# `log.cleaner.backoff.ms` may be 0; looking through all logs without a pause would be all we do.
MIN_CLEANER_BACKOFF_S = 0.1


class Maintenance:
    """All periodic passes over the logs of one node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: NodeConfig,
        disk: Disk,
        logs: LogManager,
        wall_clock: WallClock,
        offload: Offload,
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._wall_clock = wall_clock
        self._offload = offload
        self._cleaning = CleaningPass(config, logs, wall_clock, offload)
        flush_s = min(config.log_flush_scheduler_interval_ms / 1000, MAX_FLUSH_CHECK_S)
        initial_s = config.log_initial_task_delay_ms / 1000
        every = {
            "flush": (flush_s, self.flush),
            "retention": (config.log_retention_check_interval_ms / 1000, self.retain),
            "recovery-points": (config.log_flush_offset_checkpoint_interval_ms / 1000, self.checkpoint_recovery_points),
            "log-starts": (
                config.log_flush_start_offset_checkpoint_interval_ms / 1000,
                self.checkpoint_log_start_offsets,
            ),
            "high-watermarks": (
                config.replica_high_watermark_checkpoint_interval_ms / 1000,
                self.checkpoint_high_watermarks,
            ),
            "producers": (config.producer_id_expiration_check_interval_ms / 1000, self.expire_producers),
            "deleted": (min(DELETED_CHECK_S, max(0.1, config.log_segment_delete_delay_ms / 1000)), self.remove_deleted),
        }
        self._passes = [
            Periodic(loop, f"log-{name}", interval, work, initial_delay_s=min(interval, initial_s))
            for name, (interval, work) in every.items()
        ]
        self._cleaner: Periodic | None = None
        if config.log_cleaner_enable:
            self._cleaner = Periodic(loop, "log-cleaner", _cleaner_backoff_s(config), self._cleaning.run)
            self._passes.append(self._cleaner)

    def apply_config(self, config: NodeConfig) -> None:
        """What may change while the node runs."""
        self._cleaning.apply_config(config)
        if self._cleaner is not None:
            self._cleaner.interval_s = _cleaner_backoff_s(config)

    async def stop(self) -> None:
        for one in self._passes:
            await one.stop()

    async def flush(self) -> None:
        """`flush.ms`, and closed segments."""
        for due in self._logs.logs_to_flush(self._wall_clock.now_ms()):
            await self._flush_one(due)

    async def _flush_one(self, due: Log) -> None:
        try:
            task = due.begin_flush()
            running = asyncio.ensure_future(self._offload(task.run))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                # The node stops. If this fsync fails, those of the shutdown will not: the kernel tells of it once.
                await asyncio.wait([running])
                if isinstance(error := running.exception(), DiskError):
                    due.directory.fail(error)
                raise
        except DiskError as error:
            # An fsync that failed may have lost what it was to save: the directory is done with (KAFKA-10778).
            due.directory.fail(error)
            log.error("flush of %s failed: %s", due.topic_partition, error)
            return
        due.complete_flush(task, self._wall_clock.now_ms())

    async def retain(self) -> None:
        deleted = self._logs.delete_old_segments(self._wall_clock.now_ms())
        if deleted:
            log.info("retention deleted %d segments", deleted)

    async def checkpoint_recovery_points(self) -> None:
        self._logs.checkpoint_recovery_points()

    async def checkpoint_log_start_offsets(self) -> None:
        self._logs.checkpoint_log_start_offsets()

    async def checkpoint_high_watermarks(self) -> None:
        self._logs.checkpoint_high_watermarks()

    async def expire_producers(self) -> None:
        self._logs.remove_expired_producers(self._wall_clock.now_ms())

    async def remove_deleted(self) -> None:
        """Files of deleted segments and partitions, `file.delete.delay.ms` later."""
        now_ms = self._wall_clock.now_ms()
        await self._remove(self._disk.remove, self._logs.deleted_files_due(now_ms))
        await self._remove(self._disk.remove_tree, self._logs.deleted_due(now_ms))

    async def _remove(self, remove: Callable[[str], None], paths: list[str]) -> None:
        for path in paths:
            try:
                await self._offload(remove, path)
            except DiskError as error:
                # The next start removes it.
                log.error("a deleted file could not be removed from disk: %s", error)


def _cleaner_backoff_s(config: NodeConfig) -> float:
    return max(MIN_CLEANER_BACKOFF_S, config.log_cleaner_backoff_ms / 1000)
