"""Finding things in a log: slices by offset, records by time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidelog.storage.log_types import LogSlice, TimestampOffset
from tidelog.storage.segment import CorruptSegment, Segment
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.batch import NO_TIMESTAMP, BatchHeader
from tidelog.wire.records.plain import Record, decode_batch

if TYPE_CHECKING:
    from tidelog.storage.log import Log

NO_BYTES: Final = LogSlice(None, 0, 0, 0)


def read(log: "Log", start_offset: int, max_bytes: int, upper_bound: int, min_one: bool) -> LogSlice:
    """Whole batches from the one that holds `start_offset`, none of them reaching `upper_bound` or beyond (F4)."""
    end_offset = log.log_end_offset
    if start_offset > end_offset or start_offset < log.log_start_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {start_offset} of {log.topic_partition} is not within [{log.log_start_offset}, {end_offset}]",
        )
    if start_offset >= upper_bound or start_offset == end_offset:
        return NO_BYTES
    segments = log.segments
    segment = segments.active
    following: Segment | None = None
    if start_offset < segment.base_offset:
        floor = segments.floor(start_offset)
        assert floor is not None, (start_offset, segments[0].base_offset)
        segment, following = floor, segments.after(floor)
    position = segment.position_of(start_offset)
    while position is None:
        # Compaction or retention left a gap: what follows it stands in the next segment.
        if following is None or following.base_offset >= upper_bound:
            return NO_BYTES
        segment, following = following, segments.after(following)
        position = segment.position_of(start_offset)
    end = segment.size
    if upper_bound < (end_offset if following is None else following.base_offset):
        bound = segment.position_of(upper_bound)
        if bound is not None:
            end = bound
    if end - position > max_bytes:
        end = segment.boundary_before(position + max(0, max_bytes), position)
        if end == position and min_one:
            end = position + segment.batch_size_at(position)
    if end <= position:
        return NO_BYTES
    return LogSlice(segment.log, position, end - position, segment.base_offset)


def offset_for_timestamp(log: "Log", timestamp: int) -> TimestampOffset | None:
    """The first record not earlier than `timestamp`, looked up inside its batch."""
    for segment in log.segments:
        if segment.max_timestamp < timestamp:
            continue
        start = max(segment.time_index.offset_before(timestamp), log.log_start_offset)
        position = segment.position_of(start)
        if position is None:
            continue
        for found, header in segment.headers(position):
            if header.max_timestamp < timestamp:
                continue
            for record in _kept_records(log, segment, found, header):
                if record.timestamp >= timestamp:
                    return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def offset_for_max_timestamp(log: "Log") -> TimestampOffset | None:
    """The first record that carries the log's largest timestamp."""
    best_timestamp = NO_TIMESTAMP
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in log.segments:
        if segment.base_offset >= log.log_start_offset and segment.max_timestamp <= best_timestamp:
            continue
        for position, header in _candidates(log, segment):
            if not header.record_count:
                continue
            timestamp = header.max_timestamp
            if header.base_offset < log.log_start_offset:
                kept = (record.timestamp for record in _kept_records(log, segment, position, header))
                timestamp = max(kept, default=NO_TIMESTAMP)
            if timestamp > best_timestamp:
                best_timestamp, best = timestamp, (segment, position, header)
    if best is None:
        return None
    first = next(record for record in _kept_records(log, *best) if record.timestamp == best_timestamp)
    return TimestampOffset(first.offset, first.timestamp, best[2].partition_leader_epoch)


def _candidates(log: "Log", segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """The batch known to hold the segment's largest timestamp; all of them where the log starts inside the segment."""
    whole = segment.base_offset >= log.log_start_offset
    position = segment.position_of(segment.offset_of_max_timestamp if whole else log.log_start_offset)
    if position is None:
        return iter(())
    found = next(segment.headers(position))
    if whole and found[1].record_count:
        return iter((found,))
    # Compaction emptied that batch and left its timestamp: any other may hold the largest of a record now.
    return segment.headers(0 if whole else position)


def _kept_records(log: "Log", segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    start = log.log_start_offset
    return [record for record in records_at(segment, position, header) if record.offset >= start]


def records_at(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    """The records of one batch."""
    try:
        return decode_batch(segment.log.pread(header.size_in_bytes, position))[1]
    except WireError as error:
        raise CorruptSegment(f"{segment.path} at {position}: {error}") from error
