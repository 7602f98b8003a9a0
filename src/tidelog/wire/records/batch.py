"""The header of a record batch, read and patched in place: what produce and fetch need, and no more.

Layout (magic 2, big endian): base offset, batch length, partition leader epoch, magic, CRC, then everything
the CRC covers: attributes, last offset delta, base and max timestamp, producer id, epoch and base sequence,
record count, records. Base offset and leader epoch lie before the CRC so that a leader can assign them
without touching what the producer signed.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import (
    CODEC_MASK,
    CODECS,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
    TimestampType,
)

MAGIC: Final = 2
BATCH_OVERHEAD: Final = 61
# Base offset and batch length: the part that `batch_length` does not count.
LOG_OVERHEAD: Final = 12
MIN_BATCH_LENGTH: Final = BATCH_OVERHEAD - LOG_OVERHEAD

NO_TIMESTAMP: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

_HEADER: Final = Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = Struct(">q")
_INT32: Final = Struct(">i")
_BATCH_LENGTH_POSITION: Final = 8
_LEADER_EPOCH_POSITION: Final = 12
_CRC: Final = Struct(">I")


class BatchHeader(NamedTuple):
    """One batch's header. A tuple because one is made per batch produced, fetched or recovered."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_in_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def codec(self) -> Codec:
        """WireError for the three ids that name no codec."""
        codec_id = self.attributes & CODEC_MASK
        if codec_id >= len(CODECS):
            raise WireError(f"unknown compression codec id {codec_id}")
        return CODECS[codec_id]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones, if it has decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequences are the 31-bit non-negative integers; after the last comes 0."""
    return (sequence + increment) & MAX_SEQUENCE


def read_header(buffer: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`. The records behind it need not be in the buffer (compare `size_in_bytes`)."""
    if pos < 0 or len(buffer) - pos < BATCH_OVERHEAD:
        raise _no_room(len(buffer) - pos, pos)
    header = BatchHeader._make(_HEADER.unpack_from(buffer, pos))
    if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
        raise _no_batch(header, pos)
    return header


def unpack_header(buffer: Buffer) -> BatchHeader:
    """The 61 bytes at the start, unchecked: for who checks them all at once."""
    return BatchHeader._make(_HEADER.unpack_from(buffer))


def write_header(buffer: bytearray | memoryview, header: BatchHeader, pos: int = 0) -> None:
    """The inverse of `read_header`; the CRC is the header's own (`seal` computes it)."""
    _HEADER.pack_into(buffer, pos, *header)


def compute_crc(buffer: Buffer, header: BatchHeader, pos: int = 0) -> int:
    """CRC-32C of what the header says the batch holds, read in place."""
    crc: int = crc32c(memoryview(buffer)[pos + ATTRIBUTES_POSITION : pos + LOG_OVERHEAD + header.batch_length])
    return crc


def crc_ok(buffer: Buffer, header: BatchHeader, pos: int = 0) -> bool:
    """Whether the whole batch is in the buffer and its bytes are those its producer signed."""
    return len(buffer) - pos >= header.size_in_bytes and compute_crc(buffer, header, pos) == header.crc


def stamp(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, pos: int = 0) -> None:
    """Assign offset and leader epoch in place; both lie outside what the CRC covers."""
    _BASE_OFFSET.pack_into(buffer, pos, base_offset)
    _INT32.pack_into(buffer, pos + _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_producer(buffer: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Say who sends a batch that was made before that was known, and seal it."""
    header = read_header(buffer)._replace(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    write_header(buffer, header)
    seal(buffer, header)


def seal(buffer: bytearray | memoryview, header: BatchHeader, pos: int = 0) -> int:
    """Write the CRC of the bytes as they are now; for whoever rewrote what it covers."""
    crc = compute_crc(buffer, header, pos)
    _CRC.pack_into(buffer, pos + CRC_POSITION, crc)
    return crc


def iter_headers(buffer: Buffer, *, partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, in order.

    A fetch may cut its last batch: with `partial_tail` the walk ends before it, else it is a WireError.
    """
    pos = 0
    end = len(buffer)
    unpack = _HEADER.unpack_from
    while pos < end:
        left = end - pos
        if left < BATCH_OVERHEAD:
            if partial_tail:
                return
            raise _no_room(left, pos)
        header = BatchHeader._make(unpack(buffer, pos))
        size = LOG_OVERHEAD + header.batch_length
        # Before anything else: what was cut is not looked at.
        if size > left and partial_tail:
            return
        if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
            raise _no_batch(header, pos)
        if size > left:
            raise WireError(f"batch at {pos} has the length {size}, but {left} bytes are left")
        yield pos, header
        pos += size


def _no_room(left: int, pos: int) -> WireError:
    return WireError(f"{left} bytes at {pos} cannot hold a {BATCH_OVERHEAD}-byte batch header")


def _no_batch(header: BatchHeader, pos: int) -> WireError:
    if header.magic != MAGIC:
        return WireError(f"batch at {pos} has magic {header.magic}, only {MAGIC} is supported")
    return WireError(f"batch at {pos} has the length {header.batch_length}, less than a header of {MIN_BATCH_LENGTH}")
