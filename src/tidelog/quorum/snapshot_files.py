"""Snapshots on disk, in Kafka's format (Q6): `<end offset>-<epoch>.checkpoint`, batches between a header and a footer.

Written beside under `.part`, fsynced, renamed: a snapshot that has its name is whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.quorum.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control,
    encode_control,
)
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, VoterSet
from tidelog.storage.ports import Disk, DiskFile
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import LOG_OVERHEAD, BatchHeader
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"

# A batch is closed once it holds this much; no batch of a snapshot is much larger.
_BATCH_BYTES: Final = 1 << 20
# More than any batch of ours or Kafka's (8 MiB); a length beyond it is damage.
_MAX_BATCH_BYTES: Final = 64 << 20


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `end_offset`; `epoch` is that of the last record in it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"

    @classmethod
    def parse(cls, file_name: str) -> "SnapshotId | None":
        """None for names that are not a finished snapshot's."""
        offset, dash, epoch = file_name.removesuffix(SUFFIX).partition("-")
        if not (file_name.endswith(SUFFIX) and dash and offset.isdecimal() and epoch.isdecimal()):
            return None
        return cls(int(offset), int(epoch)) if len(offset) == 20 and len(epoch) == 10 else None


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The finished snapshots, oldest first."""
    return sorted(each for name in disk.list_dir(directory) if (each := SnapshotId.parse(name)) is not None)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """What a crash left of snapshots being written."""
    for name in disk.list_dir(directory):
        if name.endswith(PART_SUFFIX):
            disk.remove(f"{directory}/{name}")


def write_snapshot(
    disk: Disk,
    path: str,
    values: Iterable[bytes],
    *,
    epoch: int,
    last_contained_timestamp: int,
    now_ms: int,
    voters: VoterSet | None = None,
) -> None:
    """The whole file at `path`, durable when this returns. Blocking, and safe on any thread: it shares nothing."""
    part = path + PART_SUFFIX
    disk.remove(part)
    writer = _Writer(disk.open(part, create=True), epoch, now_ms)
    head: list[ControlMessage] = [SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp)]
    if voters is not None and voters.kraft_version >= KRAFT_VERSION_RECONFIGURABLE:
        head += [KRaftVersionRecord(k_raft_version=voters.kraft_version), voters.to_record()]
    writer.control(head)
    writer.data(values)
    writer.control([SnapshotFooterRecord()])
    writer.file.fsync()
    writer.file.close()
    disk.rename(part, path)


class _Writer:
    """Batches one after the other; offsets in a snapshot count from 0 and mean nothing."""

    def __init__(self, file: DiskFile, epoch: int, now_ms: int) -> None:
        self.file = file
        self._epoch = epoch
        self._now_ms = now_ms
        self._next_offset = 0

    def control(self, messages: Sequence[ControlMessage]) -> None:
        batch = encode_control(
            messages, base_offset=self._next_offset, leader_epoch=self._epoch, timestamp=self._now_ms
        )
        self._append(batch, len(messages))

    def data(self, values: Iterable[bytes]) -> None:
        pending: list[Record] = []
        size = 0
        for value in values:
            pending.append(Record(timestamp=self._now_ms, value=value))
            size += len(value)
            if size >= _BATCH_BYTES:
                self._append_data(pending)
                pending, size = [], 0
        if pending:
            self._append_data(pending)

    def _append_data(self, records: list[Record]) -> None:
        batch = encode_batch(records, base_offset=self._next_offset, leader_epoch=self._epoch)
        self._append(batch, len(records))

    def _append(self, batch: bytes, count: int) -> None:
        self.file.append(batch)
        self._next_offset += count


@dataclass(slots=True)
class SnapshotHead:
    """What the quorum itself keeps of a snapshot."""

    last_contained_timestamp: int
    voters: VoterSet | None


class SnapshotReader:
    """Reads a snapshot batch by batch. QuorumError for anything but a whole and sound file."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._path = path
        self._file = disk.open(path)
        try:
            self._size = self._file.size()
            self.head, self._position = self._read_head()
        except BaseException:
            self.close()
            raise

    def _read_head(self) -> tuple[SnapshotHead, int]:
        """And where the rest begins."""
        first, position = self._control_batch(0)
        header = first[0] if first else None
        if not isinstance(header, SnapshotHeaderRecord):
            raise QuorumError(f"{self._path} does not start with a snapshot header")
        voters = next((VoterSet.from_record(each) for each in first if isinstance(each, VotersRecord)), None)
        return SnapshotHead(header.last_contained_log_timestamp, voters), position

    def values(self) -> Iterator[bytes]:
        """The records of the quorum's user; read to its end it has also checked the footer. Gives the file back."""
        try:
            yield from self._values()
        finally:
            self.close()

    def _values(self) -> Iterator[bytes]:
        position = self._position
        while position < self._size:
            batch = self._batch(position)
            position += len(batch)
            header, records = self._decode(batch)
            if header.is_control:
                self._check_footer(records, position)
                return
            for record in records:
                if record.value is None:
                    raise QuorumError(f"{self._path} holds a record without a value at {record.offset}")
                yield record.value
        raise QuorumError(f"{self._path} has no snapshot footer: it is incomplete")

    def close(self) -> None:
        self._file.close()

    def _check_footer(self, records: list[Record], position: int) -> None:
        messages = [self._control(record) for record in records]
        if not any(isinstance(each, SnapshotFooterRecord) for each in messages) or position != self._size:
            raise QuorumError(f"{self._path} has a control batch where its footer should be")

    def _control_batch(self, position: int) -> tuple[list[ControlMessage], int]:
        batch = self._batch(position)
        header, records = self._decode(batch)
        if not header.is_control:
            raise QuorumError(f"{self._path} does not start with a snapshot header")
        return [self._control(record) for record in records], position + len(batch)

    def _control(self, record: Record) -> ControlMessage:
        try:
            return decode_control(record)
        except WireError as error:
            raise QuorumError(f"{self._path}: {error}") from error

    def _batch(self, position: int) -> bytes:
        start = self._file.pread(LOG_OVERHEAD, position)
        length = LOG_OVERHEAD + int.from_bytes(start[8:], "big", signed=True)
        if len(start) < LOG_OVERHEAD or not LOG_OVERHEAD < length <= min(self._size - position, _MAX_BATCH_BYTES):
            raise QuorumError(f"{self._path} is damaged or cut at byte {position}")
        return self._file.pread(length, position)

    def _decode(self, batch: bytes) -> tuple[BatchHeader, list[Record]]:
        try:
            return decode_batch(batch)
        except WireError as error:
            raise QuorumError(f"{self._path} is damaged: {error}") from error
