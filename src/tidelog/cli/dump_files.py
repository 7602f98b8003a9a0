"""Readers for every kind of file in a log directory. Each yields lines."""

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.cli.dump_batches import dump_batches
from tidelog.cli.dump_words import Damaged, Line, moment
from tidelog.cli.output import counted
from tidelog.core.ids import uuid_to_text
from tidelog.storage import checkpoints
from tidelog.storage.posix import PosixDisk
from tidelog.storage.producer_snapshot import CorruptSnapshot, decode_snapshot

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TXN_ENTRY: Final = Struct(">hqqqq")


def reader_for(path: Path, *, records: bool) -> Iterator[Line] | None:
    """The reader for a file, chosen by its name; None if no file of a log directory has such a name."""
    if path.suffix == ".checkpoint" or (path.suffix == ".log" and path.stem.isdecimal()):
        return dump_batches(path, records=records)
    by_suffix = _BY_SUFFIX.get(path.suffix)
    if by_suffix is not None:
        return by_suffix(path)
    by_name = _BY_NAME.get(path.name)
    return by_name(path) if by_name is not None else None


def _offset_index(path: Path) -> Iterator[Line]:
    base = _base_offset(path)
    previous = (-1, -1)
    for relative, position in _entries(path, _OFFSET_ENTRY):
        damaged = relative <= previous[0] or position <= previous[1]
        previous = (relative, position)
        text = f"offset {base + relative} is in the batch at position {position}"
        yield Line(
            text + (" (OUT OF ORDER)" if damaged else ""),
            {"offset": base + relative, "position": position},
            damaged,
        )


def _time_index(path: Path) -> Iterator[Line]:
    base = _base_offset(path)
    previous = (-1, -1)
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        damaged = timestamp < previous[0] or relative < previous[1]
        previous = (timestamp, relative)
        text = f"up to offset {base + relative} no timestamp is later than {moment(timestamp)}"
        yield Line(
            text + (" (OUT OF ORDER)" if damaged else ""),
            {"timestamp": timestamp, "offset": base + relative},
            damaged,
        )


def _txn_index(path: Path) -> Iterator[Line]:
    for version, producer, first, last, stable in _entries(path, _TXN_ENTRY):
        yield Line(
            f"producer {producer} aborted offsets {first} to {last} (last stable offset {stable})",
            {
                "version": version,
                "producer_id": producer,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            },
        )


def _producer_snapshot(path: Path) -> Iterator[Line]:
    try:
        entries = decode_snapshot(path.read_bytes())
    except CorruptSnapshot as error:
        raise Damaged(str(error)) from error
    yield Line(counted(len(entries), "producer") + f" as of offset {_base_offset(path)}", {"producers": len(entries)})
    for entry in entries:
        transaction = entry.current_txn_first_offset
        open_since = f", open transaction since offset {transaction}" if transaction is not None else ""
        yield Line(
            f"producer {entry.producer_id} epoch {entry.producer_epoch}: last sequence {entry.last_sequence} at offset "
            f"{entry.last_data_offset}, {moment(entry.last_timestamp)}{open_since}",
            {
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "last_sequence": entry.last_sequence,
                "last_offset": entry.last_data_offset,
                "last_timestamp": entry.last_timestamp,
                "current_txn_first_offset": transaction,
            },
        )


def _offset_checkpoint(path: Path) -> Iterator[Line]:
    for tp, offset in checkpoints.read_offsets(PosixDisk(), str(path)).items():
        yield Line(f"{tp}: {offset}", {"topic": tp.topic, "partition": tp.partition, "offset": offset})


def _epoch_checkpoint(path: Path) -> Iterator[Line]:
    for entry in checkpoints.read_epochs(PosixDisk(), str(path)):
        yield Line(
            f"leader epoch {entry.epoch} starts at offset {entry.start_offset}",
            {"epoch": entry.epoch, "start_offset": entry.start_offset},
        )


def _partition_metadata(path: Path) -> Iterator[Line]:
    topic_id = checkpoints.read_partition_metadata(PosixDisk(), str(path))
    text = uuid_to_text(topic_id) if topic_id is not None else None
    yield Line(f"topic id {text}", {"topic_id": text})


def _meta_properties(path: Path) -> Iterator[Line]:
    meta = checkpoints.read_meta_properties(PosixDisk(), str(path))
    if meta is None:
        raise Damaged("the file is empty")
    yield from _fields(meta)


def _fields(meta: NamedTuple) -> Iterator[Line]:
    for name, value in meta._asdict().items():
        shown: Any = uuid_to_text(value) if hasattr(value, "bytes_le") else value
        yield Line(f"{name.replace('_', '.')}: {shown}", {name: shown})


def _text(path: Path) -> Iterator[Line]:
    for line in path.read_text("utf-8", "replace").splitlines():
        yield Line(line, {"line": line})


def _entries(path: Path, entry: Struct) -> Iterator[tuple[Any, ...]]:
    data = path.read_bytes()
    rest = len(data) % entry.size
    last_used = (0,) * len(entry.unpack(bytes(entry.size)))
    for number, fields in enumerate(entry.iter_unpack(data[: len(data) - rest])):
        # Kafka preallocates indexes: zeros after the last entry are unused space, not entries.
        if number and fields == last_used:
            return
        yield fields
    if rest:
        raise Damaged(f"{len(data)} bytes are not a whole number of {entry.size}-byte entries")


def _base_offset(path: Path) -> int:
    if not path.stem.isdigit():
        raise Damaged("the file name does not begin with an offset")
    return int(path.stem)


_BY_SUFFIX: Final[dict[str, Callable[[Path], Iterator[Line]]]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _txn_index,
    ".snapshot": _producer_snapshot,
}

_BY_NAME: Final[dict[str, Callable[[Path], Iterator[Line]]]] = {
    checkpoints.REPLICATION_OFFSET_CHECKPOINT: _offset_checkpoint,
    checkpoints.RECOVERY_POINT_CHECKPOINT: _offset_checkpoint,
    checkpoints.LOG_START_OFFSET_CHECKPOINT: _offset_checkpoint,
    checkpoints.CLEANER_OFFSET_CHECKPOINT: _offset_checkpoint,
    checkpoints.LEADER_EPOCH_CHECKPOINT: _epoch_checkpoint,
    checkpoints.PARTITION_METADATA: _partition_metadata,
    checkpoints.META_PROPERTIES: _meta_properties,
    checkpoints.CLEAN_SHUTDOWN: _text,
    "quorum-state": _text,
    "cluster.json": _text,
}
