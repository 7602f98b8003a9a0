"""The ``.snapshot`` file: every producer of a partition as of an offset, in Kafka's format, version 1.

int16 version, uint32 CRC-32C of all that follows it, then an array of 46-byte entries. Kafka stores one batch
per producer and so forgets the other four over a restart. We append what it has no field for behind its array:
under the same CRC, and where its readers do not look.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final

from crc32c import crc32c

from tidelog.storage.producer_entry import BATCHES_REMEMBERED, BatchMetadata, ProducerEntry

VERSION: Final = 1

_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
# Ours: a tag, then for each entry in the same order when it was last seen and all its batches (the last once more:
# Kafka's field for its time holds that of a marker that came later).
_EXTENSION_TAG: Final = b"TLP1"
_EXTENSION_ENTRY: Final = Struct(">qb")
_EXTENSION_BATCH: Final = Struct(">iqiq")


class CorruptSnapshot(Exception):
    """A snapshot file that cannot be used; state is then rebuilt from an older one and the log."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
    ordered = list(entries)
    body = bytearray(_COUNT.pack(len(ordered)))
    extension = bytearray(_EXTENSION_TAG)
    for entry in ordered:
        last = entry.batches[-1] if entry.batches else None
        txn_first_offset = entry.current_txn_first_offset
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            last.offset_delta if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if txn_first_offset is None else txn_first_offset,
        )
        extension += _EXTENSION_ENTRY.pack(entry.last_seen_ms, len(entry.batches))
        for batch in entry.batches:
            extension += _EXTENSION_BATCH.pack(*batch)
    body += extension
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries of a file written by us or by Kafka; CorruptSnapshot for anything else."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a snapshot")
    version, crc = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version}, but only {VERSION} is supported")
    if crc32c(memoryview(data)[_PREFIX.size :]) != crc:
        raise CorruptSnapshot("the CRC does not match")
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    pos = _PREFIX.size + _COUNT.size
    if not 0 <= count * _ENTRY.size <= len(data) - pos:
        raise CorruptSnapshot(f"{len(data)} bytes cannot hold {count} producers")
    end = pos + count * _ENTRY.size
    entries = [_entry(*_ENTRY.unpack_from(data, at)) for at in range(pos, end, _ENTRY.size)]
    if end < len(data):
        _read_extension(data, end, entries)
    return entries


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    last = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        last_seen_ms=timestamp,
        current_txn_first_offset=txn_first_offset if txn_first_offset >= 0 else None,
        batches=(last,) if last_offset >= 0 else (),
    )


def _read_extension(data: bytes, pos: int, entries: list[ProducerEntry]) -> None:
    if data[pos : pos + len(_EXTENSION_TAG)] != _EXTENSION_TAG:
        raise CorruptSnapshot(f"unknown bytes after {len(entries)} producers")
    pos += len(_EXTENSION_TAG)
    try:
        for entry in entries:
            entry.last_seen_ms, count = _EXTENSION_ENTRY.unpack_from(data, pos)
            pos += _EXTENSION_ENTRY.size
            if not 0 <= count <= BATCHES_REMEMBERED:
                raise CorruptSnapshot(f"{count} batches of producer {entry.producer_id}")
            end = pos + count * _EXTENSION_BATCH.size
            entry.batches = [
                BatchMetadata._make(_EXTENSION_BATCH.unpack_from(data, at))
                for at in range(pos, end, _EXTENSION_BATCH.size)
            ]
            pos = end
    except struct_error as error:
        raise CorruptSnapshot(f"the batches end early: {error}") from error
    if pos != len(data):
        raise CorruptSnapshot(f"{len(data) - pos} bytes after the last producer")
