"""What a log hands back."""

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.storage.ports import DiskFile, FileMissing
from tidelog.wire.errors import ApiError, ErrorCode


@dataclass(slots=True)
class AppendInfo:
    """One append's outcome. A duplicate carries the offsets of the first time, and nothing was written."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    # -1 unless the topic stamps LogAppendTime.
    log_append_time: int
    log_start_offset: int
    size_in_bytes: int
    duplicate: bool = False


@dataclass(slots=True)
class LogSlice:
    """Whole batches within one segment, not yet read."""

    file: DiskFile | None
    position: int
    size: int
    segment_base_offset: int

    def is_cached(self) -> bool:
        """Whether reading will likely not wait for the device; also true of a file that is gone (`read` says so)."""
        if self.file is None:
            return True
        try:
            return self.file.is_cached(self.size, self.position)
        except FileMissing:
            return True

    def read(self) -> bytes:
        """The bytes, by one `pread`."""
        if self.file is None:
            return b""
        try:
            return self.file.pread(self.size, self.position)
        except FileMissing as error:
            # Retention or a topic's deletion was faster; the client asks again and learns the new state.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.path} has been deleted") from error


class TimestampOffset(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int
