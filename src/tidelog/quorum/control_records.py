"""What the quorum writes about itself, between the records of its users: Kafka's control records, byte for byte."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID as PyUuid

from tidelog.wire.codec import read_message, write_message
from tidelog.wire.errors import WireError
from tidelog.wire.records.control import ControlRecordType, control_key, parse_control_type
from tidelog.wire.records.plain import Record, encode_batch
from tidelog.wire.schema import INT16, INT32, INT64, STRING, UINT16, UUID, Array, Struct, f, message, spec_of, struct


@struct
class LeaderChangeVoter:
    voter_id: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID, "1+")


@message(versions="0-1", flexible="0+")
@struct
class LeaderChangeMessage:
    """Opens an epoch. `version` repeats the version it is written at, as in all of these."""

    version: int = f(INT16)
    leader_id: int = f(INT32)
    voters: list[LeaderChangeVoter] = f(Array(LeaderChangeVoter))
    granting_voters: list[LeaderChangeVoter] = f(Array(LeaderChangeVoter))


@message(versions="0-0", flexible="0+")
@struct
class SnapshotHeaderRecord:
    version: int = f(INT16)
    last_contained_log_timestamp: int = f(INT64)


@message(versions="0-0", flexible="0+")
@struct
class SnapshotFooterRecord:
    version: int = f(INT16)


@message(versions="0-0", flexible="0+")
@struct
class KRaftVersionRecord:
    version: int = f(INT16)
    k_raft_version: int = f(INT16)


@struct
class VoterEndpoint:
    name: str = f(STRING)
    host: str = f(STRING)
    port: int = f(UINT16)


@struct
class KRaftVersionFeature:
    min_supported_version: int = f(INT16)
    max_supported_version: int = f(INT16)


@struct
class VotersRecordVoter:
    voter_id: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID)
    endpoints: list[VoterEndpoint] = f(Array(VoterEndpoint))
    k_raft_version_feature: KRaftVersionFeature = f(Struct(KRaftVersionFeature))


@message(versions="0-0", flexible="0+")
@struct
class VotersRecord:
    version: int = f(INT16)
    voters: list[VotersRecordVoter] = f(Array(VotersRecordVoter))


ControlMessage = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

_CLASSES: Final[dict[ControlRecordType, type[ControlMessage]]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
_TYPES: Final = {cls: control_type for control_type, cls in _CLASSES.items()}


def encode_control(messages: Iterable[ControlMessage], *, base_offset: int, leader_epoch: int, timestamp: int) -> bytes:
    """One control batch with these messages, in order."""
    records = [
        Record(
            timestamp=timestamp,
            key=control_key(_TYPES[type(each)]),
            value=write_message(each, each.version),
        )
        for each in messages
    ]
    return encode_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, is_control=True)


def decode_control(record: Record) -> ControlMessage:
    """The message of one record of a control batch. WireError for types or versions that are not known."""
    control_type = parse_control_type(record.key)
    cls = _CLASSES.get(control_type)
    if cls is None:
        raise WireError(f"control record with key {record.key!r} does not belong in a metadata log")
    value = record.value
    if value is None or len(value) < 2:
        raise WireError(f"{cls.__name__} without a version")
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in spec_of(cls).versions:
        raise WireError(f"{cls.__name__} version {version} is unknown; it may come from a newer version")
    return read_message(cls, version, value)
