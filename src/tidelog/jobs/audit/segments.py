"""One segment file, read in pieces: its batches, and the indexes beside it."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tidelog.jobs.audit.indexes import SegmentMap, wrong_offset_index, wrong_time_index
from tidelog.jobs.audit.rows import AuditRow
from tidelog.jobs.audit.walk import Replica, Walker
from tidelog.storage import checkpoints
from tidelog.storage.posix import PosixDisk
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, read_header

PIECE: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What a task reads."""

    replica: Replica
    path: str
    base_offset: int
    # Of the segment behind it; None of the last one, which grows.
    next_base: int | None


class OtherDisk(RuntimeError):
    """An executor that has another log directory under the path, or none, in one line."""


def require_own_disk(segment: Segment) -> None:
    """OtherDisk where the segment would be missing, or another node's, because the plan was made on another machine:
    what is missing would be taken for deleted.
    """
    directory = Path(segment.path).parent.parent
    meta = checkpoints.read_meta_properties(PosixDisk(), str(directory / checkpoints.META_PROPERTIES))
    if meta is None or meta.node_id != segment.replica.node:
        found = "no log directory" if meta is None else f"of node {meta.node_id}"
        raise OtherDisk(
            f"{directory} belongs to node {segment.replica.node} on the driver, but is {found} on the executor on "
            f"{socket.gethostname()}: with --data all must see the same disk; --bootstrap asks the brokers instead"
        )


def audit_segment(segment: Segment, *, reads_records: bool = True, piece: int = PIECE) -> Iterator[AuditRow]:
    """The rows of a segment. Indexes are read first: they never know more than is in the log by then."""
    walker = Walker(segment.replica, segment.path, segment.base_offset, reads_records)
    indexes = {suffix: _beside(segment, suffix) for suffix in (".index", ".timeindex")}
    batches = SegmentMap()
    try:
        file = Path(segment.path).open("rb", buffering=0)  # noqa: SIM115 - closed below, its opening alone is in question
    except FileNotFoundError:
        end = segment.base_offset + 1 if segment.next_base is None else segment.next_base
        yield walker.gone(segment.base_offset, end, "the segment was deleted")
        return
    with file:
        yield from _batches(file, segment, walker, batches, piece)
    yield from _check_indexes(segment, indexes, batches)


def _batches(file: BinaryIO, segment: Segment, walker: Walker, batches: SegmentMap, piece: int) -> Iterator[AuditRow]:
    size = file.seek(0, 2)
    position = 0
    window, start = memoryview(b""), 0
    while position < size:
        at = position - start
        if len(window) - at < BATCH_OVERHEAD and start + len(window) < size:
            window, start, at = _read(file, position, piece), position, 0
        try:
            header = read_header(window, at)
        except WireError as error:
            yield _torn(walker, position, size, str(error))
            return
        if header.size_in_bytes > size - position:
            left = size - position
            yield _torn(
                walker, position, size, f"its header has size {header.size_in_bytes}, but {left} bytes are left"
            )
            return
        if header.size_in_bytes > len(window) - at:
            window, start, at = _read(file, position, max(piece, header.size_in_bytes)), position, 0
        if header.size_in_bytes > len(window):
            # A log that is running was cut between two reads.
            yield _torn(walker, position, size, "the file has become shorter")
            return
        yield from walker.batch(window, at, header, position)
        batches.add(position, header.base_offset, header.last_offset, header.max_timestamp)
        position += header.size_in_bytes
    yield from _end(segment, walker, position)


def _end(segment: Segment, walker: Walker, position: int) -> Iterator[AuditRow]:
    """A segment that is closed ends where the next one begins."""
    end, next_base = walker.expected, segment.next_base
    if next_base is None or end is None or end == next_base or (segment.replica.compacted and end < next_base):
        return
    if end < next_base:
        what = f"offsets {end} to {next_base - 1} are missing between this segment and the next"
        yield walker.problem_at(end, position, what, last_offset=next_base - 1)
    else:
        yield walker.problem_at(next_base, position, f"the segment goes on to {end - 1}, into the next one")


def _torn(walker: Walker, position: int, size: int, why: str) -> AuditRow:
    return walker.problem_at(walker.reached, position, f"{size - position} bytes at {position} are not a batch: {why}")


def _read(file: BinaryIO, position: int, length: int) -> memoryview:
    file.seek(position)
    pieces = bytearray()
    while len(pieces) < length:
        piece = file.read(length - len(pieces))
        if not piece:
            break
        pieces += piece
    return memoryview(bytes(pieces))


def _beside(segment: Segment, suffix: str) -> tuple[str, bytes]:
    path = Path(segment.path).with_suffix(suffix)
    try:
        return str(path), path.read_bytes()
    except FileNotFoundError:
        # It is made again from the log when that is loaded.
        return str(path), b""


def _check_indexes(segment: Segment, indexes: dict[str, tuple[str, bytes]], batches: SegmentMap) -> Iterator[AuditRow]:
    checks = {".index": wrong_offset_index, ".timeindex": wrong_time_index}
    for suffix, (path, data) in indexes.items():
        about = Walker(segment.replica, path)
        for offset, at, what in checks[suffix](data, segment.base_offset, batches):
            yield about.problem_at(offset, at, what)
