"""Making a log durable, in two halves: what to sync is decided at once, the syncing may block elsewhere.

`Log.begin_flush` (writes the epochs) -> `FlushTask.run` (any thread: it touches only files) -> `Log.complete_flush`.
The recovery point moves last, after bytes, indexes, epochs and directory entries are safe.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidelog.storage.directory import LogDirectory
from tidelog.storage.ports import Disk, DiskError, FileMissing


@dataclass(frozen=True, slots=True)
class FlushTask:
    """Everything below `offset`, as it stood when the task was made."""

    disk: Disk
    directory: LogDirectory
    syncs: list[Callable[[], None]]
    dirs: list[str]
    offset: int
    # Of the segment that was active: its indexes are not among the syncs.
    active_base_offset: int
    # Names made in the log's directory so far: one made in between is not covered.
    entries_made: int
    # Truncations of the log so far: one in between makes the result worthless.
    truncations: int

    def run(self) -> None:
        try:
            for sync in self.syncs:
                # A segment deleted meanwhile needs no sync, nor does a deleted topic's directory.
                with suppress(FileMissing):
                    sync()
            for path in self.dirs:
                with suppress(FileMissing):
                    self.disk.fsync_dir(path)
        except DiskError as error:
            # An fsync that failed once may succeed next time without having written anything: no second try. Set at
            # once, so that no append or flush on the event loop passes it by; that loop then tells (`fail`).
            if self.directory.failure is None:
                self.directory.failure = error
            raise
