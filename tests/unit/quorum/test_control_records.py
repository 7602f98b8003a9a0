"""Control records are Kafka's byte for byte; the hex texts come from Kafka 4.3's own serializer."""

from uuid import UUID

import pytest

from tidelog.quorum.control_records import (
    ControlMessage,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VoterEndpoint,
    VotersRecord,
    VotersRecordVoter,
    decode_control,
    encode_control,
)
from tidelog.wire.codec import write_message
from tidelog.wire.errors import WireError
from tidelog.wire.records.control import ControlRecordType, control_key
from tidelog.wire.records.plain import Record, decode_batch

U = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
VOTERS = [LeaderChangeVoter(voter_id=1, voter_directory_id=U)]

GOLDEN: list[tuple[ControlMessage, str]] = [
    (
        LeaderChangeMessage(version=1, leader_id=1, voters=VOTERS, granting_voters=VOTERS),
        "00010000000102000000010102030405060708090a0b0c0d0e0f100002000000010102030405060708090a0b0c0d0e0f100000",
    ),
    (SnapshotHeaderRecord(last_contained_log_timestamp=12345), "0000000000000000303900"),
    (SnapshotFooterRecord(), "000000"),
    (KRaftVersionRecord(k_raft_version=1), "0000000100"),
    (
        VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=1,
                    voter_directory_id=U,
                    endpoints=[VoterEndpoint(name="C", host="h", port=9093)],
                    k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
                )
            ]
        ),
        "000002000000010102030405060708090a0b0c0d0e0f10020243026823850000000001000000",
    ),
]


@pytest.mark.rule("C1")
@pytest.mark.parametrize(("message", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_bytes_are_kafkas(message: ControlMessage, expected: str) -> None:
    assert write_message(message, message.version).hex() == expected
    batch = encode_control([message], base_offset=5, leader_epoch=3, timestamp=9)
    header, (record,) = decode_batch(batch)
    assert header.is_control and (header.base_offset, header.partition_leader_epoch) == (5, 3)
    assert record.key is not None and len(record.key) == 4
    assert decode_control(record) == message


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (control_key(ControlRecordType.COMMIT), b"\0\0\0\0\0\0", "does not belong"),
        (control_key(ControlRecordType.SNAPSHOT_FOOTER), None, "without a version"),
        (control_key(ControlRecordType.SNAPSHOT_FOOTER), b"\0\7\0", "version 7 is unknown"),
        (b"\0\0\0\x63", b"\0\0\0", "does not belong"),
    ],
)
def test_what_is_not_known_is_refused(key: bytes, value: bytes | None, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode_control(Record(key=key, value=value))
