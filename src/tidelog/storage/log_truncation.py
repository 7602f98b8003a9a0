"""Cutting a log at either end. Everything derived from the log (epochs, indexes, producers) is cut with it (E1)."""

from typing import TYPE_CHECKING, Final

from tidelog.storage import log_producers
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


# Of no file: where a reader looks for what was cut.
CUT_SUFFIX: Final = ".cut"


def truncate_to(log: "Log", offset: int, now_ms: int) -> bool:
    """Removes what stands at `offset` and after; whether there was anything.

    A batch that straddles the offset goes whole: the log then ends before `offset`, where its last batch does.
    """
    if offset < 0:
        raise ValueError(f"cannot truncate {log.topic_partition} to {offset}")
    if offset >= log.log_end_offset:
        # An epoch opened at the end and never written to goes as well: its leader may not have kept it.
        log.epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.log_start_offset or offset <= log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    end = _end_of_whole_batches(log, offset)
    if end < log.log_start_offset:
        # The log began inside the batch that went: nothing of it is left.
        truncate_fully_and_start_at(log, log.log_start_offset, now_ms)
        return True
    _lower_recovery_point(log, end)
    _lower_high_watermark(log, end)
    _lower_first_dirty_offset(log, end)
    log.truncations += 1
    # Newest first: a crash between two removals must not leave a gap with old records behind it.
    for segment in reversed(log.segments.from_offset(end)):
        if segment.base_offset >= end and len(log.segments) > 1:
            remove_segment(log, segment)
            log.disk.fsync_dir(log.dir)
    log.segments.active.truncate_to(end)
    log.set_log_end_offset(end)
    log.epochs.truncate_from_end(end)
    log.write_epochs()
    log_producers.rebuild(log, now_ms)
    return True


def _end_of_whole_batches(log: "Log", offset: int) -> int:
    """`offset`, or where the last batch before it ends: it lies inside one, or in a hole that compaction left.

    Only an end that a batch or a segment's name tells is found again after a restart.
    """
    segment = log.segments.floor(offset)
    assert segment is not None, (offset, log.segments[0].base_offset)
    end = segment.base_offset
    for _, header in segment.headers(segment.offset_index.position_for(offset - 1)):
        if header.last_offset >= offset:
            break
        end = header.next_offset
    return end


def truncate_fully_and_start_at(log: "Log", offset: int, now_ms: int) -> None:
    """Forgets everything; the log is empty and starts and ends at `offset`."""
    # Nothing of the old log is promised from here on, so that a crash half way is no missing data: also where nothing
    # is left that tells where it began.
    _lower_recovery_point(log, 0)
    _lower_log_start(log, offset)
    _lower_high_watermark(log, log.log_start_offset)
    _lower_first_dirty_offset(log, offset)
    log.truncations += 1
    # Before the segments: a snapshot that a crash left beside the new log would speak for it, and a retried batch that
    # is nowhere any more would be acknowledged as a duplicate (P4).
    log.producers.truncate_fully_and_start_at(offset)
    for segment in reversed(list(log.segments)):
        remove_segment(log, segment)
        log.disk.fsync_dir(log.dir)
    log.add_segment(Segment.create(log.disk, log.dir, offset, now_ms, log.draw_jitter()))
    log.disk.fsync_dir(log.dir)
    log.log_start_offset = offset
    log.set_log_end_offset(offset)
    log.recovery_point = offset
    log.epochs.clear()
    log.write_epochs()


def _lower_recovery_point(log: "Log", offset: int) -> None:
    """On disk first: a checkpoint above the cut would vouch for bytes written there later and never flushed."""
    if offset < log.recovery_point:
        log.recovery_point = offset
        if log.directory.checkpoint_recovery_points is not None:
            log.directory.checkpoint_recovery_points()


def _lower_log_start(log: "Log", offset: int) -> None:
    """On disk first: DeleteRecords had it written down at once, and what is written below it from now on would be gone
    after a crash.
    """
    if offset < log.log_start_offset:
        log.log_start_offset = offset
        if log.directory.checkpoint_log_start_offsets is not None:
            log.directory.checkpoint_log_start_offsets()


def _lower_high_watermark(log: "Log", offset: int) -> None:
    """On disk first, too: after a crash the checkpoint is taken for a lower bound of what is committed (W4)."""
    if offset < log.high_watermark:
        log.update_high_watermark(offset)
    if log.directory.lower_high_watermark is not None:
        log.directory.lower_high_watermark(log.topic_partition, offset)


def _lower_first_dirty_offset(log: "Log", offset: int) -> None:
    """On disk first, as the others: what is written from `offset` on was never compacted."""
    if log.first_dirty_offset is not None and log.first_dirty_offset > offset:
        log.first_dirty_offset = offset
        if log.directory.checkpoint_cleaner_offsets is not None:
            log.directory.checkpoint_cleaner_offsets()


def remove_segment(log: "Log", segment: Segment) -> None:
    """Out of the log and off the disk at once: truncated records must not be readable any more."""
    log.segments.remove(segment)
    segment.close_files()
    for path in segment.paths():
        log.disk.remove(path)
    # A slice handed out before finds nothing there, and not what is written under the old name from now on.
    segment.moved_to(segment.path + CUT_SUFFIX)
