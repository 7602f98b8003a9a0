"""Putting a compacted segment in the place of those it was made from, so that a crash leaves one or the other.

On disk, in this order: `.log.cleaned` (synced) becomes `.log.swap`, durably: from here on the new segment is the truth,
and recovery completes the rest. The old files become `.deleted`, durably. The new ones drop their suffix. Before the
first step recovery throws the new segment away; indexes it finds missing are rebuilt.
"""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.storage import retention
from tidelog.storage.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class CleanedSegment(NamedTuple):
    """Complete, synced, and not yet part of the log."""

    segment: Segment
    # Whether it differs from its only source.
    changed: bool


def sync(cleaned: Segment) -> None:
    """Bytes and indexes are safe when this returns; the names follow with the first rename."""
    cleaned.become_inactive()
    for flush in cleaned.syncs(active=False):
        flush()
    cleaned.close_files()


def swap_in(log: "Log", sources: list[Segment], cleaned: Segment, now_ms: int) -> Segment:
    """Replaces `sources` in the log and on disk; the segment that took their place."""
    disk = log.disk
    log.sync_entries()
    final = cleaned.path.removesuffix(CLEANED_SUFFIX)
    disk.rename(cleaned.path, final + SWAP_SUFFIX)
    for source in sources:
        retention.doom_files(log, source, now_ms)
    disk.fsync_dir(log.dir)
    indexes = cleaned.offset_index, cleaned.time_index
    for index in indexes:
        disk.rename(index.path, index.path.removesuffix(CLEANED_SUFFIX), durable=False)
    disk.rename(final + SWAP_SUFFIX, final)
    replacement = Segment(
        disk,
        log.dir,
        cleaned.base_offset,
        max(source.created_ms for source in sources),
        size=cleaned.size,
        index_bytes=cleaned.offset_index.size_bytes,
        time_index_bytes=cleaned.time_index.size_bytes,
    )
    replacement.close_files()
    log.segments.replace(sources, replacement)
    log.producers.remove_stray_snapshots([segment.base_offset for segment in log.segments])
    return replacement


def discard(cleaned: Segment) -> None:
    """Takes a segment that is not wanted after all off the disk; one left behind goes at the next start."""
    cleaned.close_files()
    for path in (cleaned.path, cleaned.offset_index.path, cleaned.time_index.path):
        cleaned.disk.remove(path)
