"""Which part of a log may be cleaned, and whether it is worth it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """Dirty is [first_dirty_offset, first_uncleanable_offset); the latter is where a segment starts."""

    log: "Log"
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    # Something in it has waited for `max.compaction.lag.ms`.
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio
        )


def log_to_clean(log: "Log", now_ms: int, blocked_at: int | None = None) -> LogToClean:
    """`blocked_at`: where a segment starts that the cleaner must leave alone, with all behind it."""
    first_dirty = log.first_dirty_offset
    if first_dirty is None or not log.log_start_offset <= first_dirty <= log.log_end_offset:
        # Never cleaned, or a checkpoint of another life of the log.
        first_dirty = log.log_start_offset
    bounds = [log.last_stable_offset, log.segments.active.base_offset, log.recovery_point]
    if blocked_at is not None:
        bounds.append(blocked_at)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (
            segment.base_offset
            for segment in _closed_from(log, first_dirty)
            if segment.largest_timestamp() > now_ms - lag_ms
        )
        bounds.extend([offset for offset in (next(young, None),) if offset is not None])
    # Whole segments only: the one that holds the bound stays as it is.
    holding = log.segments.floor(min(bounds))
    first_uncleanable = holding.base_offset if holding is not None else log.segments[0].base_offset
    clean_bytes = dirty_bytes = 0
    for segment, end in _closed(log):
        if segment.base_offset >= first_uncleanable:
            break
        if end <= first_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
    return LogToClean(
        log=log,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        is_overdue=_is_overdue(log, first_dirty, first_uncleanable, now_ms),
    )


def _closed(log: "Log") -> Iterator[tuple[Segment, int]]:
    """Segments that no longer grow, with the offset at which the next begins."""
    for number in range(len(log.segments) - 1):
        yield log.segments[number], log.segments[number + 1].base_offset


def _closed_from(log: "Log", offset: int) -> Iterator[Segment]:
    return (segment for segment, end in _closed(log) if end > offset)


def _is_overdue(log: "Log", first_dirty: int, first_uncleanable: int, now_ms: int) -> bool:
    latest = now_ms - log.config.max_compaction_lag_ms
    if latest <= 0:
        return False
    dirty = (segment for segment in _closed_from(log, first_dirty) if segment.base_offset < first_uncleanable)
    return any(0 < segment.first_timestamp() < latest for segment in dirty if segment.size)
