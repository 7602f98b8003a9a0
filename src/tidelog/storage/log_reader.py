"""Finding things in a log: slices by offset, records by time."""

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
            for record in records_at(segment, found, header):
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def offset_for_max_timestamp(log: "Log") -> TimestampOffset | None:
    """The first record that carries the log's largest timestamp."""
    latest: tuple[int, int, BatchHeader, Segment] | None = None
    for segment in log.segments:
        if segment.base_offset >= log.log_start_offset and segment.max_timestamp <= (latest[0] if latest else -1):
            continue
        found = _latest_batch(log, segment)
        if found is not None and (latest is None or found[1].max_timestamp > latest[0]):
            latest = (found[1].max_timestamp, found[0], found[1], segment)
    if latest is None:
        return None
    timestamp, position, header, segment = latest
    for record in records_at(segment, position, header):
        if record.timestamp == timestamp and record.offset >= log.log_start_offset:
            return TimestampOffset(record.offset, timestamp, header.partition_leader_epoch)
    return None


def _latest_batch(log: "Log", segment: Segment) -> tuple[int, BatchHeader] | None:
    """Position and header of the segment's batch with the largest timestamp, among those still in the log."""
    start = segment.offset_of_max_timestamp
    position = segment.position_of(start if start >= log.log_start_offset else log.log_start_offset)
    if position is None:
        return None
    latest: tuple[int, BatchHeader] | None = None
    for found, header in segment.headers(position):
        if header.max_timestamp > (latest[1].max_timestamp if latest else NO_TIMESTAMP):
            latest = found, header
        if start >= log.log_start_offset:
            break
    return latest


def records_at(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    """The records of one batch."""
    try:
        return decode_batch(segment.log.pread(header.size_in_bytes, position))[1]
    except WireError as error:
        raise CorruptSegment(f"{segment.path} at {position}: {error}") from error
