"""Prints the batches and records of segments, of the metadata log and of its snapshots."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID

from tidelog.cli.dump_words import Line, moment, quoted
from tidelog.cli.output import counted
from tidelog.core.ids import METADATA_TOPIC, uuid_to_text
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import BATCH_OVERHEAD, BatchHeader, crc_ok, read_header
from tidelog.wire.records.control import ControlRecordType, parse_control_type, parse_end_txn_marker
from tidelog.wire.records.plain import Record, decode_batch
from tidelog.wire.schema import field_specs

OFFSETS_TOPIC: Final = "__consumer_offsets"
# The largest segment, and so the largest batch.
_MAX_BATCH_BYTES: Final = 2**31 - 1

# Decodes a record of an internal topic.
Reader = Callable[[Record], Any]


def dump_batches(path: Path, *, records: bool) -> Iterator[Line]:
    """Yields each batch, and each record with `records`. The metadata log is always printed with its records."""
    topic = path.absolute().parent.name.rpartition("-")[0]
    is_metadata = topic == METADATA_TOPIC or path.suffix == ".checkpoint"
    reader: Reader | None = None
    if is_metadata:
        reader = _metadata_record
    elif topic == OFFSETS_TOPIC:
        reader = _offsets_record
    with path.open("rb") as file:
        size = path.stat().st_size
        yield Line(_title(path, topic, is_metadata, size), {"file": str(path), "bytes": size})
        yield from _walk(file, size, records or is_metadata, reader)


def _title(path: Path, topic: str, is_metadata: bool, size: int) -> str:
    if path.suffix == ".checkpoint":
        return f"metadata snapshot {path.stem}, {size} bytes"
    kind = "metadata log" if is_metadata else f"segment of {path.absolute().parent.name}" if topic else "segment"
    return f"{kind} from offset {path.stem.lstrip('0') or '0'}, {size} bytes"


def _walk(file: BinaryIO, size: int, records: bool, reader: Reader | None) -> Iterator[Line]:
    position = 0
    while position < size:
        left = size - position
        head = file.read(BATCH_OVERHEAD)
        try:
            header = read_header(head)
        except WireError as error:
            yield Line(f"torn: {left} bytes at {position} are not a batch: {error}", {"torn_at": position}, True)
            return
        if header.size_in_bytes > min(left, _MAX_BATCH_BYTES):
            text = f"torn: the batch at {position} has {header.size_in_bytes} bytes by its header, but {left} are left"
            yield Line(text, {"torn_at": position}, True)
            return
        batch = head + file.read(header.size_in_bytes - BATCH_OVERHEAD)
        intact = crc_ok(batch, header)
        yield _batch_line(header, position, intact)
        if records and intact:
            yield from _records(batch, header, reader)
        position += header.size_in_bytes


def _batch_line(header: BatchHeader, position: int, intact: bool) -> Line:
    words = [
        f"batch {header.base_offset}..{header.last_offset} at {position}: {counted(header.record_count, 'record')}",
        f"{header.size_in_bytes} bytes",
        f"leader epoch {header.partition_leader_epoch}",
        f"{header.timestamp_type.name} up to {moment(header.max_timestamp)}",
    ]
    try:
        codec = header.codec
        if codec is not Codec.NONE:
            words.append(codec.name.lower())
    except WireError as error:
        words.append(str(error))
    if header.has_producer_id:
        sequences = f" sequence {header.base_sequence}..{header.last_sequence}" if header.base_sequence >= 0 else ""
        words.append(f"producer {header.producer_id} epoch {header.producer_epoch}{sequences}")
    if header.is_transactional:
        words.append("transactional")
    if header.is_control:
        words.append("control")
    words.append("CRC ok" if intact else "CRC WRONG")
    data = {**header._asdict(), "position": position, "last_offset": header.last_offset, "crc_ok": intact}
    return Line(", ".join(words), data, not intact)


def _records(batch: bytes, header: BatchHeader, reader: Reader | None) -> Iterator[Line]:
    try:
        _, records = decode_batch(batch)
    except WireError as error:
        yield Line(f"  unreadable: {error}", {"unreadable": str(error)}, True)
        return
    for record in records:
        data: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
        try:
            if header.is_control:
                yield _control_line(record, data)
                continue
            if reader is not None:
                decoded = reader(record)
                yield Line(f"  {record.offset}: {_words(decoded)}", {**data, **_plain(decoded)})
                continue
        except WireError as error:
            yield Line(f"  {record.offset}: unreadable: {error}", {**data, "unreadable": str(error)}, True)
            continue
        headers = "".join(f", header {name}={quoted(value)}" for name, value in record.headers)
        content = f"key {quoted(record.key)}, value {quoted(record.value)}{headers}"
        yield Line(
            f"  {record.offset}: {moment(record.timestamp)}, {content}",
            {
                **data,
                "key": quoted(record.key),
                "value": quoted(record.value),
                "headers": [[name, quoted(value)] for name, value in record.headers],
            },
        )


def _control_line(record: Record, data: dict[str, Any]) -> Line:
    control_type = parse_control_type(record.key)
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = parse_end_txn_marker(record)
        text = f"{control_type.name} of a transaction, coordinator epoch {marker.coordinator_epoch}"
        return Line(f"  {record.offset}: {text}", {**data, "control": control_type.name, **marker._asdict()})
    from tidelog.quorum.control_records import decode_control

    decoded = decode_control(record)
    return Line(f"  {record.offset}: {_words(decoded)}", {**data, "control": control_type.name, **_plain(decoded)})


def _metadata_record(record: Record) -> Any:
    from tidelog.metadata.records.framing import unframe

    if record.value is None:
        raise WireError("the metadata record has no value")
    return unframe(record.value)


def _offsets_record(record: Record) -> Any:
    from tidelog.coordinator.offsets_records import decode

    if record.key is None:
        raise WireError("the record has no key")
    return decode(record.key, record.value)


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """Names and values of a typed record's fields; None for a value that is not a typed record."""
    if hasattr(type(value), "__wire__"):
        return [(name, getattr(value, name)) for name, _ in field_specs(type(value))]
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return None


def _words(value: Any) -> str:
    """A typed record as `TopicRecord name=orders topic_id=…`, nested structs in parentheses."""
    inner = _fields(value)
    if inner is None:
        return _word(value)
    return " ".join([type(value).__name__, *(f"{name}={_word(item)}" for name, item in inner)])


def _word(value: Any) -> str:
    if _fields(value) is not None:
        return f"({_words(value)})"
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_word(item) for item in value) + "]"
    return "null" if value is None else str(value)


def _plain(value: Any) -> dict[str, Any]:
    return {"type": type(value).__name__, **{name: _json(item) for name, item in _fields(value) or ()}}


def _json(value: Any) -> Any:
    inner = _fields(value)
    if inner is not None:
        return {name: _json(item) for name, item in inner}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, UUID | bytes):
        return _word(value)
    return value
