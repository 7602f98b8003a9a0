"""Kafka's small text files, byte for byte: what a log directory remembers between two lives of a process.

Every file starts with its version. A newer one than ours is refused with one line (`NewerFormat`): guessing at a
format is how data gets lost. Text that is not a checkpoint at all is `CorruptCheckpoint`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from tidelog.core.ids import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text
from tidelog.storage.ports import Disk

REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = 0
_META_VERSION: Final = 1
Row = TypeVar("Row")


class StorageFormatError(Exception):
    """A file of a log directory that we cannot or must not read; the message is one line for an operator."""


class NewerFormat(StorageFormatError):
    """Written by a newer version."""

    def __init__(self, path: str, version: object, supported: int) -> None:
        super().__init__(
            f"{path} has format version {version}, but this version of Tidelog reads only up to {supported}"
        )


class CorruptCheckpoint(StorageFormatError):
    """Not what the file's name promises."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} is malformed: {problem}")


# -- tables: version, count, one row per line


def _read_table(disk: Disk, path: str, parse: Callable[[list[str]], Row]) -> list[Row]:
    lines = _text(disk, path).splitlines()
    if len(lines) < 2:
        raise CorruptCheckpoint(path, f"{len(lines)} lines, but a version and a count are required")
    _check_version(path, lines[0])
    if not lines[1].isdecimal() or int(lines[1]) != len(lines) - 2:
        raise CorruptCheckpoint(path, f"its header counts {lines[1]!r} entries, but it has {len(lines) - 2}")
    rows: list[Row] = []
    for line in lines[2:]:
        try:
            rows.append(parse(line.split()))
        except (ValueError, IndexError) as error:
            raise CorruptCheckpoint(path, f"line {line!r}") from error
    return rows


def _table_text(rows: Iterable[str]) -> bytes:
    body = list(rows)
    return "\n".join((str(_VERSION), str(len(body)), *body, "")).encode()


def _check_version(path: str, text: str) -> None:
    try:
        version = int(text)
    except ValueError as error:
        raise CorruptCheckpoint(path, f"version {text!r}") from error
    if version > _VERSION:
        raise NewerFormat(path, version, _VERSION)
    if version < 0:
        raise CorruptCheckpoint(path, f"version {text!r}")


def _text(disk: Disk, path: str) -> str:
    try:
        return disk.read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(path, "not UTF-8") from error


def _parse_offset_row(words: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = words
    return TopicPartition(topic, int(partition)), int(offset)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """A replication-offset, recovery-point, log-start-offset or cleaner-offset checkpoint; empty if missing."""
    if not disk.exists(path):
        return {}
    return dict(_read_table(disk, path, _parse_offset_row))


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, durable: bool = True) -> None:
    rows = (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    disk.write_atomic(path, _table_text(rows), durable=durable)


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


def _parse_epoch_row(words: list[str]) -> EpochEntry:
    epoch, start_offset = words
    return EpochEntry(int(epoch), int(start_offset))


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """The leader-epoch-checkpoint; empty if missing."""
    if not disk.exists(path):
        return []
    return _read_table(disk, path, _parse_epoch_row)


def epochs_text(entries: Iterable[EpochEntry]) -> bytes:
    return _table_text(f"{entry.epoch} {entry.start_offset}" for entry in entries)


# -- partition.metadata


def read_partition_metadata(disk: Disk, path: str) -> UUID | None:
    """The topic id a partition directory belongs to; None if the file is missing."""
    if not disk.exists(path):
        return None
    fields = _fields(path, _text(disk, path), ":")
    _check_version(path, fields.get("version", ""))
    try:
        topic_id = uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(path, "no valid topic_id") from error
    if topic_id == ZERO_UUID:
        raise CorruptCheckpoint(path, "the topic id is zero")
    return topic_id


def write_partition_metadata(disk: Disk, path: str, topic_id: UUID) -> None:
    disk.write_atomic(path, f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode())


# -- meta.properties


class MetaProperties(NamedTuple):
    """Whose log directory this is."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """None if the directory was never formatted."""
    if not disk.exists(path):
        return None
    fields = _fields(path, _text(disk, path), "=")
    version = fields.get("version", "")
    if version != str(_META_VERSION):
        if version.isdecimal() and int(version) > _META_VERSION:
            raise NewerFormat(path, version, _META_VERSION)
        raise CorruptCheckpoint(path, f"version {version!r}, expected {_META_VERSION}")
    try:
        return MetaProperties(fields["cluster.id"], int(fields["node.id"]), uuid_from_text(fields["directory.id"]))
    except KeyError as error:
        raise CorruptCheckpoint(path, f"{error.args[0]} is missing") from error
    except ValueError as error:
        raise CorruptCheckpoint(path, str(error)) from error


def write_meta_properties(disk: Disk, path: str, meta: MetaProperties) -> None:
    lines = (
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={uuid_to_text(meta.directory_id)}",
        f"node.id={meta.node_id}",
        f"version={_META_VERSION}",
        "",
    )
    disk.write_atomic(path, "\n".join(lines).encode())


def _fields(path: str, text: str, separator: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, found, value = line.partition(separator)
        if not found:
            raise CorruptCheckpoint(path, f"line {line!r}")
        # Java's Properties writer escapes these two inside values.
        fields[name.strip()] = value.strip().replace("\\=", "=").replace("\\:", ":")
    return fields


# -- .kafka_cleanshutdown


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """The broker epoch of a clean shutdown (-1 if it did not say); None if there was none."""
    if not disk.exists(path):
        return None
    try:
        content = json.loads(_text(disk, path))
        version, epoch = content["version"], content["brokerEpoch"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptCheckpoint(path, "not valid JSON") from error
    if not isinstance(version, int) or not isinstance(epoch, int):
        raise CorruptCheckpoint(path, "version and brokerEpoch must be numbers")
    if version > _VERSION:
        raise NewerFormat(path, version, _VERSION)
    return epoch


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    text = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.write_atomic(path, text.encode())
