"""Control records: what the log says about itself, between the records of its users."""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import NO_SEQUENCE
from tidelog.wire.records.plain import Record, encode_batch

_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")
_KEY_VERSION: Final = 0
_END_TXN_VERSION: Final = 0


class ControlRecordType(IntEnum):
    """The type in a control record's key. `UNKNOWN` stands for any newer than these: readers skip it."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction, written by its transaction coordinator."""

    committed: bool
    coordinator_epoch: int

    @property
    def control_type(self) -> ControlRecordType:
        return ControlRecordType.COMMIT if self.committed else ControlRecordType.ABORT


def control_key(control_type: ControlRecordType) -> bytes:
    """The key of a control record of that type."""
    if control_type is ControlRecordType.UNKNOWN:
        raise ValueError("UNKNOWN is for reading only")
    return _KEY.pack(_KEY_VERSION, control_type)


def parse_control_type(key: bytes | None) -> ControlRecordType:
    """The type in a control record's key; newer key versions only add to it."""
    if key is None or len(key) < _KEY.size:
        raise WireError(f"a control record's key has {_KEY.size} bytes, not {key!r}")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise WireError(f"control record key of version {version}")
    try:
        return ControlRecordType(type_id)
    except ValueError:
        return ControlRecordType.UNKNOWN


def parse_end_txn_marker(record: Record) -> EndTransactionMarker:
    """WireError unless the record is the commit or abort marker of a transaction."""
    control_type = parse_control_type(record.key)
    if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise WireError(f"{control_type.name} does not end a transaction")
    if record.value is None or len(record.value) < _END_TXN_VALUE.size:
        raise WireError(f"a transaction marker has {_END_TXN_VALUE.size} bytes, not {record.value!r}")
    version, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value)
    if version < 0:
        raise WireError(f"transaction marker of version {version}")
    return EndTransactionMarker(control_type is ControlRecordType.COMMIT, coordinator_epoch)


def encode_end_txn_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch of one marker, as the leader of a partition appends it."""
    record = Record(
        timestamp=timestamp,
        key=control_key(marker.control_type),
        value=_END_TXN_VALUE.pack(_END_TXN_VERSION, marker.coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )
