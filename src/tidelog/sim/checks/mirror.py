"""What stands in a log, batch by batch, read from the disk as it grows: not what the node believes."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.sim.disk import SimDisk
from tidelog.storage.log import Log
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, BatchHeader, compute_crc, read_header

LAST_SEQUENCE: Final = 2**31 - 1


def sequence_after(sequence: int, count: int) -> int:
    """Counted one after the other, as the invariant has it, and not with what the nodes count with: that is judged."""
    for _ in range(count):
        sequence = 0 if sequence == LAST_SEQUENCE else sequence + 1
    return sequence


class Batch(NamedTuple):
    """One batch: what makes it the same as another one, and where it stands."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    path: str
    position: int
    size: int

    def same(self, other: "Batch") -> bool:
        return self[:4] == other[:4]

    def __str__(self) -> str:
        return f"{self.base_offset}..{self.next_offset - 1} of epoch {self.epoch} (crc {self.crc:08x})"


class LogProblem(NamedTuple):
    """What is wrong with a batch by itself: `invariant` names who has to say so."""

    invariant: str
    what: str


class LogMirror:
    """Follows one `Log` of one process. `problems` are for the invariants to report."""

    def __init__(self, log: Log, disk: Callable[[], SimDisk]) -> None:
        self.log = log
        self.batches: list[Batch] = []
        self.problems: list[LogProblem] = []
        self.rebuilt = 0
        """How often it was read from the beginning: after a cut nothing seen before counts."""
        self.dropped = 0
        """How often batches went with their segments, from the beginning."""
        self._disk = disk
        self._truncations = log.truncations
        self._segment_base = -1
        self._position = 0
        self._end = -1
        # Producer id -> its epoch and last sequence.
        self._producers: dict[int, tuple[int, int]] = {}

    @property
    def version(self) -> int:
        """The same as long as batches only came to the end."""
        return self.rebuilt + self.dropped

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log.log_start_offset

    def refresh(self) -> bool:
        """Whether anything is new."""
        log = self.log
        if not len(log.segments):
            # It was to begin anew, and its directory failed before there was a file for that.
            return False
        first = log.segments[0].base_offset
        if self.batches and self.batches[0].base_offset < first:
            # Its segments were deleted.
            del self.batches[: self.number_of(first)]
            self.dropped += 1
        if log.log_end_offset == self._end and log.truncations == self._truncations:
            return False
        if log.truncations != self._truncations:
            self._start_anew()
        self._end = log.log_end_offset
        for segment in log.segments:
            if segment.base_offset < self._segment_base:
                continue
            if segment.base_offset > self._segment_base:
                self._segment_base, self._position = segment.base_offset, 0
            if segment.size > self._position:
                self._read(segment.path, segment.size)
        return True

    def wrong_end(self) -> str | None:
        """Whether the bytes end where the log says, as of the last refresh. Not while it is being cut."""
        end = self._end
        # A directory that failed may have done so in the middle of a truncation; its logs are not used any more.
        if self.end == end or self.log.directory.failure is not None:
            return None
        return f"{self.log.topic_partition}: the log end offset is {end}, but its bytes end at {self.end}"

    def at(self, offset: int) -> Batch | None:
        """The batch that begins there."""
        number = self.number_of(offset)
        found = self.batches[number] if number < len(self.batches) else None
        return found if found is not None and found.base_offset == offset else None

    def number_of(self, offset: int) -> int:
        """How many batches begin before `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.base_offset)

    def data(self, batch: Batch) -> bytes:
        return self._disk().peek(batch.path, batch.position, batch.position + batch.size)

    def _start_anew(self) -> None:
        self._truncations = self.log.truncations
        self.batches.clear()
        self._producers.clear()
        self._segment_base, self._position = -1, 0
        self.rebuilt += 1

    def _read(self, path: str, end: int) -> None:
        data = self._disk().peek(path, self._position, end)
        position = 0
        while position + BATCH_OVERHEAD <= len(data):
            try:
                header = read_header(data, position)
            except WireError as error:
                self._problem("Offsets", f"{path} at {self._position + position}: {error}")
                break
            if compute_crc(data, header, position) != header.crc:
                self._problem("Offsets", f"{path} at {self._position + position}: the CRC is wrong")
            self._take(header, path, self._position + position)
            position += header.size_in_bytes
        self._position = end

    def _take(self, header: BatchHeader, path: str, position: int) -> None:
        batch = Batch(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.crc,
            path,
            position,
            header.size_in_bytes,
        )
        if self.batches:
            expected = self.batches[-1].next_offset
            compacted = self.log.config.is_compacted
            if header.base_offset < expected or (header.base_offset > expected and not compacted):
                self._problem("Offsets", f"{batch}, but the next offset is {expected}")
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self._count(header, batch)
        self.batches.append(batch)

    def _count(self, header: BatchHeader, batch: Batch) -> None:
        before = self._producers.get(header.producer_id)
        if before is not None:
            epoch, last = before
            expected = 0 if header.producer_epoch > epoch else sequence_after(last, 1)
            if header.producer_epoch < epoch or header.base_sequence != expected:
                self._problem(
                    "Idempotence",
                    f"{batch} is sequence {header.base_sequence} of producer {header.producer_id} in epoch "
                    f"{header.producer_epoch}, after sequence {last} in epoch {epoch}",
                )
        last = sequence_after(header.base_sequence, header.last_offset_delta)
        self._producers[header.producer_id] = (header.producer_epoch, last)

    def _problem(self, invariant: str, what: str) -> None:
        self.problems.append(LogProblem(invariant, f"{self.log.topic_partition}: {what}"))
