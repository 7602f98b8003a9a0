"""The records of `__consumer_offsets`, byte for byte Kafka's, so that Kafka's tools read our partitions and we theirs.

Key and value each begin with an int16. The key's tells the kind of record (0 and 1 an offset, 2 a group); the value's
is the version of its schema. A null value is a tombstone. Kafka 4.x writes offsets at value version 4 (the first with a
topic id), at 1 when the commit carries its own retention (OffsetCommit v2-4), and groups at version 3; it reads all.
"""

from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID as PyUuid

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.codec import RESPONSE_LIMITS, read_message, write_message
from tidelog.wire.errors import WireError
from tidelog.wire.schema import BYTES, INT32, INT64, STRING, UUID, Array, f, message, struct

T = TypeVar("T")
KeyValue = tuple[bytes, bytes | None]

OFFSET_KEY_VERSIONS: Final = (0, 1)
OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VALUE_VERSION: Final = 4
# The only version with room for an expire timestamp.
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
GROUP_VALUE_VERSION: Final = 3
HIGHEST_VALUE_VERSION: Final = 4
# Keys and group values have strings with 16-bit lengths; requests with compact strings could carry longer ones.
MAX_STRING_BYTES: Final = 2**15 - 1


@message(versions="0-1", flexible="none")
@struct
class OffsetCommitKey:
    group: str = f(STRING)
    topic: str = f(STRING)
    partition: int = f(INT32)


@message(versions="0-4", flexible="4+")
@struct
class OffsetCommitValue:
    offset: int = f(INT64)
    leader_epoch: int = f(INT32, "3+", default=-1)
    metadata: str = f(STRING)
    commit_timestamp: int = f(INT64)
    expire_timestamp: int = f(INT64, "1", default=-1)
    topic_id: PyUuid = f(UUID, "4+", tag=0, default=ZERO_UUID)


@message(versions="2", flexible="none")
@struct
class GroupMetadataKey:
    group: str = f(STRING)


@struct
class MemberMetadata:
    member_id: str = f(STRING)
    group_instance_id: str | None = f(STRING, "3+", nullable="3+", default=None)
    client_id: str = f(STRING)
    client_host: str = f(STRING)
    rebalance_timeout: int = f(INT32, "1+", default=-1)
    session_timeout: int = f(INT32)
    subscription: bytes = f(BYTES)
    assignment: bytes = f(BYTES)


@message(versions="0-4", flexible="4+")
@struct
class GroupMetadataValue:
    protocol_type: str = f(STRING)
    generation: int = f(INT32)
    protocol: str | None = f(STRING, nullable="0+", default=None)
    leader: str | None = f(STRING, nullable="0+", default=None)
    current_state_timestamp: int = f(INT64, "2+", default=-1)
    members: list[MemberMetadata] = f(Array(MemberMetadata))


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """An offset as the log tells it; without a value it is gone."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group as the log tells it; without a value it is gone."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A kind of record that a newer broker writes (KIP-848 groups start at 3)."""

    kind: int


def fits(*texts: str | None) -> bool:
    """Whether these can be written into a record at all."""
    return all(text is None or len(text.encode()) <= MAX_STRING_BYTES for text in texts)


def _versioned(version: int, value: object) -> bytes:
    return version.to_bytes(2, "big") + write_message(value, version)


def _split(data: bytes | memoryview, what: str) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < 2:
        raise WireError(f"the {what} of a __consumer_offsets record has {len(view)} bytes, too few for a version")
    return int.from_bytes(view[:2], "big", signed=True), view[2:]


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """The key under which compaction keeps the newest commit of a group for a partition."""
    return _versioned(OFFSET_KEY_VERSION, OffsetCommitKey(group=group, topic=topic, partition=partition))


def offset_record(group: str, topic: str, partition: int, value: OffsetCommitValue) -> KeyValue:
    """A commit at the version Kafka 4.x would pick for it."""
    version = OFFSET_VALUE_VERSION if value.expire_timestamp < 0 else OFFSET_VALUE_VERSION_WITH_EXPIRY
    return offset_key(group, topic, partition), _versioned(version, value)


def offset_tombstone(group: str, topic: str, partition: int) -> KeyValue:
    return offset_key(group, topic, partition), None


def group_key(group: str) -> bytes:
    return _versioned(GROUP_KEY_VERSION, GroupMetadataKey(group=group))


def group_record(group: str, value: GroupMetadataValue) -> KeyValue:
    return group_key(group), _versioned(GROUP_VALUE_VERSION, value)


def group_tombstone(group: str) -> KeyValue:
    return group_key(group), None


def decode(key: bytes | memoryview, value: bytes | memoryview | None) -> OffsetRecord | GroupRecord | UnknownRecord:
    """Reads one record. WireError for bytes that are broken, or newer than what we can read in full."""
    kind, body = _split(key, "key")
    if kind in OFFSET_KEY_VERSIONS:
        offset_value = None if value is None else _decode_value(OffsetCommitValue, value)
        return OffsetRecord(read_message(OffsetCommitKey, kind, body), offset_value)
    if kind == GROUP_KEY_VERSION:
        group_value = None if value is None else _decode_value(GroupMetadataValue, value)
        return GroupRecord(read_message(GroupMetadataKey, kind, body), group_value)
    return UnknownRecord(kind)


def _decode_value(cls: type[T], data: bytes | memoryview) -> T:
    version, body = _split(data, "value")
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise WireError(f"{cls.__name__} version {version} is newer than {HIGHEST_VALUE_VERSION}")
    return read_message(cls, version, body, limits=RESPONSE_LIMITS)
