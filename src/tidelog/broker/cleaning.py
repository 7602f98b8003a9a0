"""The cleaner's rounds: the dirtiest log first, until none is due. Reading and copying run off the loop."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from tidelog.core.config.node import NodeConfig
from tidelog.core.ports import Offload, WallClock
from tidelog.storage.cleaner import CleanerConfig, Cleaning, CleaningAborted, LogCleaner
from tidelog.storage.cleaner_choice import LogToClean
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import DiskError, FileMissing
from tidelog.storage.segment import CorruptSegment
from tidelog.wire.errors import WireError

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("tidelog.cleaner")

# A full disk fails the copy, and harms nothing that is there.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
# It must not take the last bytes from producers either, whose directory goes offline when there are none: so much is
# left to them, or this part of a small disk.
RESERVED_BYTES: Final = 64 * 1024 * 1024
RESERVED_PART: Final = 20


class CleaningPass:
    """All logs of one node; one is cleaned at a time."""

    def __init__(self, config: NodeConfig, logs: LogManager, wall_clock: WallClock, offload: Offload) -> None:
        self._logs = logs
        self._wall_clock = wall_clock
        self._offload = offload
        self._cleaner = LogCleaner(CleanerConfig.of(config))

    def apply_config(self, config: NodeConfig) -> None:
        """For the next cleaning."""
        self._cleaner.config = CleanerConfig.of(config)

    async def run(self) -> None:
        """Cleans until no log is due, or those that are get no further."""
        self._cleaner.forget_others(self._logs)
        given_up: set[Log] = set()
        while (chosen := self._choose(given_up)) is not None:
            if not await self._clean(chosen):
                given_up.add(chosen.log)

    def _choose(self, given_up: set[Log]) -> LogToClean | None:
        now_ms = self._wall_clock.now_ms()
        due: list[LogToClean] = []
        for candidate in list(self._logs):
            if not candidate.config.is_compacted or candidate in given_up:
                continue
            try:
                found = self._cleaner.inspect(candidate, now_ms)
            except (CorruptSegment, WireError) as error:
                self._block(candidate, error)
            except DiskError as error:
                candidate.directory.fail(error)
            else:
                if found.is_due:
                    due.append(found)
        return max(due, key=lambda found: found.dirty_ratio, default=None)

    async def _clean(self, chosen: LogToClean) -> bool:
        """Whether the cleaner got ahead in the log."""
        target = chosen.log
        truncations = target.truncations
        try:
            end = await self._clean_through(chosen)
        except CleaningAborted as error:
            log.info("stopped cleaning: %s", error)
        except CorruptSegment as error:
            # A log that is being cut reads like a damaged one.
            if target.truncations == truncations:
                self._block(target, error)
        except DiskError as error:
            self._on_disk_error(target, error)
        else:
            return end > chosen.first_dirty_offset
        return False

    async def _clean_through(self, chosen: LogToClean) -> int:
        """The first offset that is dirty now."""
        # The first copy is of this one at least: where there is no room for it, nothing need be read.
        self._check_room(chosen.log, chosen.log.segments[0].size)
        cleaning = self._cleaner.begin(chosen, self._wall_clock.now_ms())
        try:
            await self._elsewhere(cleaning, cleaning.build_map)
            for group in cleaning.groups():
                self._check_room(chosen.log, sum(segment.size for segment in group))
                cleaned = await self._elsewhere(cleaning, cleaning.copy, group)
                cleaning.swap_in(group, cleaned, self._wall_clock.now_ms())
            end = self._cleaner.complete(cleaning)
        finally:
            cleaning.close()
        partition = chosen.log.topic_partition
        if cleaning.blocked_at is not None:
            log.info("%s: cleaned only below offset %d, where a transaction begins", partition, cleaning.blocked_at)
        log.info("%s: cleaned up to offset %d; %d bytes remain", partition, end, cleaning.bytes_written)
        return end

    def _check_room(self, target: Log, needed: int) -> None:
        """DiskError unless a copy as large as what it is made from would leave room."""
        disk, path = target.disk, target.directory.path
        free = disk.free_bytes(path)
        reserved = min(RESERVED_BYTES, disk.total_bytes(path) // RESERVED_PART)
        if free < needed + reserved:
            problem = f"a copy may take {needed} bytes, and {reserved} stay reserved, but only {free} are free"
            raise DiskError(errno.ENOSPC, problem, target.dir)

    async def _elsewhere(self, cleaning: Cleaning, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Off the loop. When the node stops, the work is told to end and waited for: files are ours until then."""
        running = asyncio.ensure_future(self._offload(work, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cleaning.stop()
            await asyncio.wait([running])
            raise

    def _block(self, target: Log, error: Exception) -> None:
        log.error(
            "%s: cleaning failed; the cleaner skips this partition from now on: %s", target.topic_partition, error
        )
        self._cleaner.block(target, target.log_start_offset)

    def _on_disk_error(self, target: Log, error: DiskError) -> None:
        if isinstance(error, FileMissing):
            log.info("%s: cleaning stopped: %s", target.topic_partition, error)
        elif error.errno in _NO_ROOM and target.directory.online:
            log.warning("%s: not enough disk space to clean: %s", target.topic_partition, error)
        else:
            target.directory.fail(error)
            log.error("cleaning of %s failed: %s", target.topic_partition, error)
