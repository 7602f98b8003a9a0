"""Deleting a log's old end: by time, by size, and below the log start offset.

Only whole segments go, oldest first, and nothing at or above the high watermark. Their files wait under `.deleted` for
`file.delete.delay.ms`, so that a slice handed out a moment ago can still be read.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.storage.segment import DELETED_SUFFIX, Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class DoomedSegment(NamedTuple):
    """A segment out of its log whose files are still there."""

    due_ms: int
    segment: Segment
    paths: list[str]


def delete_old_segments(log: "Log", now_ms: int) -> int:
    """One retention pass; how many segments went."""
    deleted = _delete(log, _below_log_start(log), now_ms)
    if log.config.is_deleted_by_retention:
        deleted += _delete(log, _too_old(log, now_ms), now_ms)
        deleted += _delete(log, _too_many_bytes(log), now_ms)
    return deleted


def _candidates(log: "Log", condemned: Callable[[Segment, int], bool]) -> Iterator[Segment]:
    """Segments from the oldest on, as long as they lie below the high watermark and are condemned."""
    following: Segment | None
    for number, segment in enumerate(log.segments):
        following = log.segments[number + 1] if number + 1 < len(log.segments) else None
        end = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < end or (following is None and segment.size == 0) or not condemned(segment, end):
            return
        yield segment


def _below_log_start(log: "Log") -> list[Segment]:
    # The active segment stays: it is where the log goes on.
    active = log.segments.active
    found = _candidates(log, lambda segment, end: end <= log.log_start_offset and segment is not active)
    return list(found)


def _too_old(log: "Log", now_ms: int) -> list[Segment]:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return []
    return list(_candidates(log, lambda segment, _: now_ms - segment.largest_timestamp() > retention_ms))


def _too_many_bytes(log: "Log") -> list[Segment]:
    excess = log.size_bytes - log.config.retention_bytes
    if log.config.retention_bytes < 0 or excess < 0:
        return []

    def condemned(segment: Segment, _: int) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return list(_candidates(log, condemned))


def _delete(log: "Log", segments: list[Segment], now_ms: int) -> int:
    if not segments:
        return 0
    if len(segments) == len(log.segments):
        # A log has always an active segment, and its end offset lives in that segment's name.
        log.roll(now_ms)
    log.sync_entries()
    # Nothing else will tell of the producers of these batches.
    for sync in log.producers.snapshot_syncs():
        sync()
    for segment in segments:
        doom(log, segment, now_ms)
        # Oldest first on disk, too: were a newer name gone and an older one still there after a power cut, recovery
        # would find a gap, and drop what stands behind it.
        log.disk.fsync_dir(log.dir)
    log.producers.remove_snapshots_before(log.segments[0].base_offset)
    log.raise_log_start_offset(max(log.log_start_offset, log.segments[0].base_offset))
    return len(segments)


def doom(log: "Log", segment: Segment, now_ms: int) -> None:
    """Takes a segment out of the log; its files are renamed now and removed later."""
    log.segments.remove(segment)
    doom_files(log, segment, now_ms)


def doom_files(log: "Log", segment: Segment, now_ms: int) -> None:
    waiting: list[str] = []
    suffix = _free_suffix(log, segment)
    for path in segment.paths():
        if log.disk.exists(path):
            log.disk.rename(path, path + suffix, durable=False)
            waiting.append(path + suffix)
    segment.moved_to(segment.path + suffix)
    log.doomed.append(DoomedSegment(now_ms + log.config.file_delete_delay_ms, segment, waiting))


def _free_suffix(log: "Log", segment: Segment) -> str:
    """`.deleted`, numbered if an earlier segment of that name still waits: slices of it are read by its path."""
    suffix, number = DELETED_SUFFIX, 1
    while log.disk.exists(segment.path + suffix):
        suffix, number = f".{number}{DELETED_SUFFIX}", number + 1
    return suffix


def take_due(log: "Log", now_ms: int | None) -> list[str]:
    """Files whose time has come (with None: all that wait), for the caller to remove: a large one takes its time."""
    paths: list[str] = []
    while log.doomed and (now_ms is None or log.doomed[0].due_ms <= now_ms):
        due = log.doomed.popleft()
        due.segment.close_files()
        paths += due.paths
    return paths
