"""A log directory's health, shared by every log in it.

One failed write makes a directory untrustworthy: bytes may be half there, and the kernel may have dropped dirty pages
(KAFKA-10778). From then on every log in it refuses to append, flush or truncate; only a restart clears it.
"""

from collections.abc import Callable

from tidelog.core.ids import TopicPartition
from tidelog.storage.ports import DiskError


class LogDirectoryOffline(DiskError):
    """Refused because of an earlier failure; carries that failure's errno and path."""

    def __init__(self, directory: str, cause: DiskError) -> None:
        super().__init__(
            cause.errno or 0, f"log directory {directory} is offline after an error: {cause.strerror}", cause.path
        )


class LogDirectory:
    """`on_failure` hears of the first failure only; the checkpoints are of all logs in this directory."""

    __slots__ = (
        "checkpoint_cleaner_offsets",
        "checkpoint_log_start_offsets",
        "checkpoint_recovery_points",
        "failure",
        "log_starts_unwritten",
        "lower_high_watermark",
        "on_failure",
        "path",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: DiskError | None = None
        self.on_failure: Callable[[LogDirectory, DiskError], None] | None = None
        self.checkpoint_recovery_points: Callable[[], None] | None = None
        self.checkpoint_log_start_offsets: Callable[[], None] | None = None
        # Whether a log here begins behind its first segment's first offset, and the checkpoint may not say so yet.
        self.log_starts_unwritten = False
        self.checkpoint_cleaner_offsets: Callable[[], None] | None = None
        self.lower_high_watermark: Callable[[TopicPartition, int], None] | None = None

    def write_log_starts(self) -> None:
        """Before anybody is told that records are deleted: a crash must not bring them back."""
        if self.log_starts_unwritten and self.checkpoint_log_start_offsets is not None:
            self.check()
            try:
                self.checkpoint_log_start_offsets()
            except DiskError as error:
                self.fail(error)
                raise
            self.log_starts_unwritten = False

    @property
    def online(self) -> bool:
        return self.failure is None

    def check(self) -> None:
        if self.failure is not None:
            raise LogDirectoryOffline(self.path, self.failure)

    def fail(self, error: DiskError) -> None:
        """The first failure stands. Not for other threads: what hears of it belongs to the event loop."""
        if self.failure is None:
            self.failure = error
        # Told once, and here also when a flush on another thread has set the failure already.
        tell, self.on_failure = self.on_failure, None
        if tell is not None:
            tell(self, self.failure)
