"""A walk over the batches of one replica: what each must be for itself, and after the one before it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.jobs.audit.rows import AuditRow, Kind
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import TimestampType
from tidelog.wire.records.batch import NO_TIMESTAMP, BatchHeader, crc_ok

if TYPE_CHECKING:
    from tidelog.kernel import Decoder

_END_OF_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What is known of a replica before its batches are read."""

    topic: str
    partition: int
    node: int
    high_watermark: int | None = None
    # Compaction leaves holes between offsets, and each replica cleans for itself.
    compacted: bool = False
    # The leader-epoch-checkpoint: epochs with their first offsets, ascending.
    epochs: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class Walker:
    """Invariant: `expected` is the offset that the next batch has to begin with; None where that is not known.
    `reached` is the first offset that was not seen yet, as far as can be told.
    """

    replica: Replica
    place: str
    expected: int | None = None
    reads_records: bool = True
    reached: int = 0
    _last_epoch: int = -1
    _decoder: "Decoder | None" = None
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reached = self.expected or 0
        self._starts = [start for _, start in self.replica.epochs]

    def batch(self, view: memoryview, pos: int, header: BatchHeader, position: int) -> Iterator[AuditRow]:
        """The row of a whole batch at `pos` of the view, and one for each thing that is wrong with it."""
        yield self._row(Kind.BATCH, header, position, "")
        if not crc_ok(view, header, pos):
            # Nothing behind the CRC can be believed, also not where the batch ends.
            yield self.problem(header, position, "the batch does not match its CRC")
            self.expected, self.reached = None, header.base_offset
            return
        for what in self._wrong(view, pos, header):
            yield self.problem(header, position, what)
        self.expected = self.reached = header.next_offset
        self._last_epoch = header.partition_leader_epoch

    def problem(self, header: BatchHeader, position: int, what: str) -> AuditRow:
        return self._row(self._kind(header.base_offset), header, position, what)

    def problem_at(self, offset: int, position: int, what: str, *, last_offset: int | None = None) -> AuditRow:
        """About what is no batch."""
        replica = self.replica
        last = offset if last_offset is None else last_offset
        return AuditRow(
            replica.topic,
            replica.partition,
            replica.node,
            self._kind(offset),
            self.place,
            position,
            offset,
            last,
            -1,
            0,
            0,
            0,
            what,
        )

    def gone(self, first: int, end: int, what: str) -> AuditRow:
        """Of the offsets [first, end)."""
        row = self.problem_at(first, -1, what, last_offset=end - 1)
        return row._replace(kind=Kind.GONE)

    def unread(self, first: int, why: str) -> AuditRow:
        """Of the offsets from `first` on."""
        return self.problem_at(first, -1, why)._replace(kind=Kind.UNREAD)

    def _kind(self, offset: int) -> str:
        high_watermark = self.replica.high_watermark
        return Kind.TAIL if high_watermark is not None and offset >= high_watermark else Kind.PROBLEM

    def _row(self, kind: str, header: BatchHeader, position: int, what: str) -> AuditRow:
        replica = self.replica
        return AuditRow(
            replica.topic,
            replica.partition,
            replica.node,
            kind,
            self.place,
            position,
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            header.crc,
            header.size_in_bytes,
            header.record_count,
            what,
        )

    def _wrong(self, view: memoryview, pos: int, header: BatchHeader) -> Iterator[str]:
        yield from self._wrong_order(header)
        sane = True
        for what in _wrong_header(header, compacted=self.replica.compacted):
            sane = False
            yield what
        if sane and self.reads_records and not header.is_control:
            yield from self._wrong_records(view[pos : pos + header.size_in_bytes], header)

    def _wrong_order(self, header: BatchHeader) -> Iterator[str]:
        expected, base = self.expected, header.base_offset
        if expected is not None and base < expected:
            yield f"the batch begins at offset {base}, and offset {expected - 1} came before it"
        elif expected is not None and base > expected and not self.replica.compacted:
            yield f"offsets {expected} to {base - 1} are missing before the batch"
        epoch = header.partition_leader_epoch
        if epoch < self._last_epoch:
            yield f"leader epoch {epoch} comes after epoch {self._last_epoch}"
        elif (checkpointed := self._epoch_at(base, epoch)) is not None and checkpointed != epoch:
            yield f"leader epoch {epoch}, where leader-epoch-checkpoint has epoch {checkpointed}"

    def _epoch_at(self, offset: int, found: int) -> int | None:
        """None where the checkpoint cannot tell: of what it has not kept, or not heard of yet."""
        epochs = self.replica.epochs
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or found > epochs[-1][0]:
            return None
        return epochs[index][0]

    def _wrong_records(self, batch: memoryview, header: BatchHeader) -> Iterator[str]:
        from tidelog.kernel import CorruptBatch, Decoder

        if self._decoder is None or self._decoder.next_offset > header.base_offset:
            # Rows are made and dropped: that they can be made is what is checked.
            self._decoder = Decoder(
                self.replica.topic, self.replica.partition, 0, _END_OF_OFFSETS, headers=True, verify_crc=False
            )
        try:
            for _ in self._decoder.feed(batch, partial_tail=False):
                continue
        except CorruptBatch as error:
            self._decoder = None
            yield error.reason


def _wrong_header(header: BatchHeader, *, compacted: bool) -> Iterator[str]:
    offsets = header.last_offset_delta + 1
    if header.base_offset < 0 or offsets < 1:
        yield f"offsets {header.base_offset} to {header.last_offset}"
    elif not 0 <= header.record_count <= offsets or (header.record_count != offsets and not compacted):
        yield f"{header.record_count} records for {offsets} offsets"
    if header.partition_leader_epoch < 0:
        yield f"leader epoch {header.partition_leader_epoch}"
    try:
        _ = header.codec
    except WireError as error:
        yield str(error)
    # Of compacted batches the newest record may be gone; under LogAppendTime the first one keeps its producer's time.
    by_producer = header.timestamp_type is TimestampType.CREATE_TIME and not compacted
    if by_producer and NO_TIMESTAMP < header.max_timestamp < header.base_timestamp:
        yield f"the newest timestamp {header.max_timestamp} is before the first, {header.base_timestamp}"
