"""Log compaction: of each key the newest record stays.

A cleaning has parts that change the log, on the event loop, and parts that only read it and write new files, anywhere:
`LogCleaner.inspect` -> `begin` -> *`build_map`* -> for each of `groups`: *`copy`*, `swap_in` -> `complete`, and `close`
however it ended. A log that is cut, or loses one of the segments at work, is left as it is (`CleaningAborted`).

As in Kafka: whole closed segments below the last stable offset; the newest offset of every key in the dirty section is
collected, as many keys as there is memory for, then the log is rewritten from its start up to there, neighbours
merged while they fit into one segment. Unlike Kafka, each rewritten segment keeps its last batch, if only as an empty
one: segments then always join, and recovery can tell a compacted log from one that lost a segment. The first batch of a
leader epoch stays in the same way.

Transactions: the cleaner stops before the first segment with a transactional or control batch and stays there. To go
on it would have to follow every transaction to its end and to carry the index of aborted ones over.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage import cleaner_swap
from tidelog.storage.cleaner_batches import clean_batch, read_batches, records_of
from tidelog.storage.cleaner_choice import LogToClean, log_to_clean
from tidelog.storage.cleaner_offset_map import OffsetMap
from tidelog.storage.cleaner_swap import CleanedSegment
from tidelog.storage.offset_index import MAX_RELATIVE_OFFSET
from tidelog.storage.ports import DiskError, DiskFile
from tidelog.storage.recovery import CLEANED_SUFFIX
from tidelog.storage.segment import CorruptSegment, Segment
from tidelog.wire.records.batch import BatchHeader, read_header

if TYPE_CHECKING:
    from tidelog.storage.log import Log

MIN_IO_BUFFER: Final = 64 * 1024


class CleaningAborted(Exception):
    """The log changed under the cleaner, or the node stops. Nothing was lost; there will be another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The node's share of it; the rest is the topic's."""

    dedupe_buffer_size: int = 134_217_728
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288

    @classmethod
    def of(cls, node: NodeConfig) -> "CleanerConfig":
        return cls(
            dedupe_buffer_size=node.log_cleaner_dedupe_buffer_size,
            io_buffer_load_factor=node.log_cleaner_io_buffer_load_factor,
            io_buffer_size=max(MIN_IO_BUFFER, node.log_cleaner_io_buffer_size),
        )


class _Blocked(NamedTuple):
    """From `offset` on the log is not to be cleaned: as long as it is this log and was not cut."""

    log: "Log"
    truncations: int
    offset: int


class LogCleaner:
    """Knows how far it came in each log, and where it could not go on. One cleaning at a time."""

    def __init__(self, config: CleanerConfig) -> None:
        self.config = config
        self._blocked: dict[TopicPartition, _Blocked] = {}

    def inspect(self, log: "Log", now_ms: int) -> LogToClean:
        """How dirty a log is. Of those that are due the one with the largest dirty ratio comes first."""
        return log_to_clean(log, now_ms, self._blocked_at(log))

    def _blocked_at(self, log: "Log") -> int | None:
        blocked = self._blocked.get(log.topic_partition)
        if blocked is None:
            return None
        if blocked.log is not log or blocked.truncations != log.truncations or blocked.offset < log.log_start_offset:
            del self._blocked[log.topic_partition]
            return None
        return blocked.offset

    def block(self, log: "Log", offset: int) -> None:
        """The segment that holds `offset` cannot be cleaned, nor what follows it."""
        self._blocked[log.topic_partition] = _Blocked(log, log.truncations, offset)

    def forget_others(self, logs: Iterable["Log"]) -> None:
        """Only these logs exist any more."""
        living = {log.topic_partition for log in logs}
        self._blocked = {partition: blocked for partition, blocked in self._blocked.items() if partition in living}

    def begin(self, chosen: LogToClean, now_ms: int) -> "Cleaning":
        log = chosen.log
        log.check()
        if log.directory.checkpoint_recovery_points is not None:
            # After a crash no compacted segment is to be taken for an unflushed one.
            try:
                log.directory.checkpoint_recovery_points()
            except DiskError as error:
                log.directory.fail(error)
                raise
        return Cleaning(self.config, chosen, now_ms)

    def complete(self, cleaning: "Cleaning") -> int:
        """Remembers how far it came; the first offset that is dirty now."""
        log = cleaning.log
        cleaning.check()
        if cleaning.blocked_at is not None:
            self.block(log, cleaning.blocked_at)
        end = cleaning.end_offset
        if end != log.first_dirty_offset:
            log.first_dirty_offset = end
            if log.directory.checkpoint_cleaner_offsets is not None:
                try:
                    log.directory.checkpoint_cleaner_offsets()
                except DiskError as error:
                    log.directory.fail(error)
                    raise
        return end


class _Source(NamedTuple):
    """A segment as it was when the cleaning began, read by a file of our own."""

    segment: Segment
    file: DiskFile
    size: int
    # Where the next segment begins.
    end_offset: int


class Cleaning:
    """One cleaning of one log; see the module for the order of calls."""

    def __init__(self, config: CleanerConfig, chosen: LogToClean, now_ms: int) -> None:
        log = self.log = chosen.log
        self._config = config
        self._topic = log.config
        self._now_ms = now_ms
        self._first_dirty = chosen.first_dirty_offset
        self._truncations = log.truncations
        self._stopped = False
        self._map = OffsetMap(config.dedupe_buffer_size, config.io_buffer_load_factor)
        self._last_of_producer = {entry.producer_id: entry.last_data_offset for entry in log.producers.entries()}
        # Who copies this log learns from the batches alone where an epoch began (E1): told a later start, it would give
        # the epoch before it an end so late that a replica keeps there what was never committed.
        self._epoch_starts = frozenset(entry.start_offset for entry in log.epochs.entries)
        segments = [segment for segment in log.segments if segment.base_offset < chosen.first_uncleanable_offset]
        ends = [*(segment.base_offset for segment in segments[1:]), chosen.first_uncleanable_offset]
        self._sources = [
            _Source(segment, log.disk.open(segment.path), segment.size, end)
            for segment, end in zip(segments, ends, strict=False)
        ]
        # Where a segment begins that must be left alone.
        self.blocked_at: int | None = None
        self.bytes_read = 0
        self.bytes_written = 0

    @property
    def end_offset(self) -> int:
        """Everything below is clean once all groups are swapped in."""
        return max(self._first_dirty, self._map.latest_offset + 1)

    def stop(self) -> None:
        """The part that runs elsewhere ends with CleaningAborted at its next batch."""
        self._stopped = True

    def check(self) -> None:
        """CleaningAborted if this cleaning has lost its sense. Cheap, and from any thread."""
        if self._stopped:
            raise CleaningAborted(f"{self.log.topic_partition}: the cleaner was stopped")
        if self.log.abandoned or self.log.truncations != self._truncations:
            raise CleaningAborted(f"{self.log.topic_partition} was truncated or deleted")
        self.log.directory.check()

    def close(self) -> None:
        """Gives back what it read by: a removed file keeps its room on disk for as long as a descriptor is open."""
        for source in self._sources:
            source.file.close()

    # -- any thread

    def build_map(self) -> None:
        """Collects keys until memory is full, the dirty section ends, or something must not be cleaned."""
        newest = self._map
        for source in self._sources:
            if source.end_offset <= self._first_dirty:
                continue
            mapped_before, is_full = newest.latest_offset, False
            for header, batch in self._batches(source):
                if header.is_transactional or header.is_control:
                    # What this segment's other records replace may go; the segment itself is not touched.
                    newest.latest_offset = mapped_before
                    self.blocked_at = source.segment.base_offset
                    return
                if header.last_offset < self._first_dirty:
                    continue
                # The rest is looked through all the same: a segment mapped in part is copied whole.
                is_full = is_full or newest.is_full
                if not is_full:
                    self._map_batch(header, batch)
            if is_full:
                return
            newest.latest_offset = source.end_offset - 1

    def _map_batch(self, header: BatchHeader, batch: bytes) -> None:
        for record in records_of(batch, self.log.max_decompressed_bytes):
            if record.key is not None and record.offset >= self._first_dirty:
                self._map.put(record.key, record.offset)
        self._map.latest_offset = header.last_offset

    def copy(self, group: list[Segment]) -> CleanedSegment:
        """What stays of neighbouring segments, in one new segment beside the log."""
        disk, path, base_offset = self.log.disk, self.log.dir, group[0].base_offset
        cleaner_swap.discard(Segment(disk, path, base_offset, self._now_ms, suffix=CLEANED_SUFFIX))
        cleaned = Segment.create(disk, path, base_offset, self._now_ms, suffix=CLEANED_SUFFIX)
        try:
            changed = self._copy_into(cleaned, group)
            cleaner_swap.sync(cleaned)
        except (CleaningAborted, CorruptSegment, DiskError):
            with suppress(DiskError):  # the first failure is told; what stays behind goes at the next start
                cleaner_swap.discard(cleaned)
            raise
        return CleanedSegment(cleaned, changed or len(group) > 1)

    def _copy_into(self, cleaned: Segment, group: list[Segment]) -> bool:
        """Whether anything was left out or rewritten."""
        changed = False
        pending: tuple[BatchHeader, bytes] | None = None
        for source in self._sources:
            if source.segment in group:
                for following in self._batches(source):
                    if pending is not None:
                        changed |= self._copy_batch(cleaned, *pending, is_last=False)
                    pending = following
        if pending is not None:
            changed |= self._copy_batch(cleaned, *pending, is_last=True)
        return changed

    def _copy_batch(self, cleaned: Segment, header: BatchHeader, batch: bytes, *, is_last: bool) -> bool:
        left = clean_batch(
            header,
            batch,
            self._map,
            now_ms=self._now_ms,
            delete_retention_ms=self._topic.delete_retention_ms,
            max_decompressed=self.log.max_decompressed_bytes,
            # A producer's last sequence is known from its last batch alone (P4).
            keep_empty=is_last
            or header.base_offset in self._epoch_starts
            or self._last_of_producer.get(header.producer_id) == header.last_offset,
        )
        if left is not None:
            kept = read_header(left)
            cleaned.write(left)
            cleaned.note_batch(
                kept.base_offset, kept.last_offset, len(left), kept.max_timestamp, self._topic.index_interval_bytes
            )
            self.bytes_written += len(left)
        return left is not batch

    def _batches(self, source: _Source) -> Iterator[tuple[BatchHeader, bytes]]:
        for header, batch in read_batches(
            source.file, source.size, source.segment.base_offset, self._config.io_buffer_size
        ):
            self.check()
            self.bytes_read += len(batch)
            yield header, batch

    # -- on the loop

    def groups(self) -> list[list[Segment]]:
        """Neighbours that become one segment each, from the start of the log to `end_offset`."""
        groups: list[list[Segment]] = []
        living = set(self.log.segments)
        for source in self._sources:
            segment = source.segment
            if segment.base_offset > self._map.latest_offset:
                break
            if segment not in living:
                continue  # retention was here
            if groups and self._fits(groups[-1], source):
                groups[-1].append(segment)
            else:
                groups.append([segment])
        return [group for group in groups if any(segment.size for segment in group)]

    def _fits(self, group: list[Segment], source: _Source) -> bool:
        together = [*group, source.segment]
        index_limit = self._topic.segment_index_bytes
        return (
            sum(segment.size for segment in together) <= self._topic.segment_bytes
            and sum(segment.offset_index.size_bytes for segment in together) <= index_limit
            and sum(segment.time_index.size_bytes for segment in together) <= index_limit
            and source.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        )

    def swap_in(self, group: list[Segment], cleaned: CleanedSegment, now_ms: int) -> None:
        """Puts the copy in its place, if it still has one; one that changes nothing is thrown away."""
        log = self.log
        try:
            self._check_living(group)
            if cleaned.changed:
                cleaner_swap.swap_in(log, group, cleaned.segment, now_ms)
            else:
                cleaner_swap.discard(cleaned.segment)
        except CleaningAborted:
            cleaner_swap.discard(cleaned.segment)
            raise
        except DiskError as error:
            log.directory.fail(error)
            raise

    def _check_living(self, group: list[Segment]) -> None:
        self.check()
        if not set(group) <= set(self.log.segments):
            raise CleaningAborted(f"{self.log.topic_partition}: retention deleted the segments being cleaned")
