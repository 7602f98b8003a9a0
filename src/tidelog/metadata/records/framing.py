"""The frame of a metadata record: frame version, type and version as unsigned varints, then the message."""

from typing import Final

from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
)
from tidelog.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.wire.buffers import Buffer
from tidelog.wire.codec import read_prefix, write_message
from tidelog.wire.errors import WireError
from tidelog.wire.schema import spec_of
from tidelog.wire.varint import read_uvarint, write_uvarint

FRAME_VERSION: Final = 1

MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

_CLASSES: Final[tuple[type[MetadataRecord], ...]] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RegisterControllerRecord,
    ClearElrRecord,
)

# Kafka's number of each record type we know. Invariant: one class per number.
RECORD_TYPES: Final[dict[int, type[MetadataRecord]]] = {spec_of(cls).api_key: cls for cls in _CLASSES}
assert len(RECORD_TYPES) == len(_CLASSES)


def write_version(cls: type[MetadataRecord]) -> int:
    """The version a record is written at: the newest, which is what metadata.version 4.3-IV0 writes."""
    return spec_of(cls).versions.high


def frame(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value of the log record that carries `record`."""
    cls = type(record)
    if version is None:
        version = write_version(cls)
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, spec_of(cls).api_key)
    write_uvarint(out, version)
    out += write_message(record, version)
    return bytes(out)


def unframe(value: Buffer) -> MetadataRecord:
    """The inverse of `frame`. WireError for what this version does not know: metadata is never skipped."""
    view = memoryview(value)
    try:
        frame_version, position = read_uvarint(view, 0)
        if frame_version != FRAME_VERSION:
            raise WireError(f"metadata record has frame version {frame_version}, only {FRAME_VERSION} is known")
        api_key, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError as error:
        raise WireError(f"metadata record of {len(view)} bytes ends inside its frame") from error
    cls = RECORD_TYPES.get(api_key)
    if cls is None:
        raise WireError(f"metadata record type {api_key} is unknown; it may come from a newer version")
    if version not in spec_of(cls).versions:
        raise WireError(f"{cls.__name__} version {version} is unknown; it may come from a newer version")
    record, end = read_prefix(cls, version, view, position=position)
    if end != len(view):
        raise WireError(f"{len(view) - end} bytes follow a {cls.__name__}")
    return record
