"""The records of __consumer_offsets against bytes that Apache Kafka 4.3.1 wrote, and against themselves."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.offsets_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRecord,
    UnknownRecord,
    decode,
    group_key,
    group_record,
    group_tombstone,
    offset_key,
    offset_record,
    offset_tombstone,
)
from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import WireError

AT = 1_700_000_000_000
OFFSET_KEY = "000100076772c3bc70706500066f726465727300000007"
OFFSET_VALUES = {
    0: "0000000000000000002a00016d0000018bcfe56800",
    1: "0001000000000000002a00016d0000018bcfe568000000018bcfe56801",
    2: "0002000000000000002a00016d0000018bcfe56800",
    3: "0003000000000000002a0000000300016d0000018bcfe56800",
    4: "0004000000000000002a00000003026d0000018bcfe5680001001000000000000000010000000000000002",
}
OFFSET_WITHOUT_TOPIC_ID = "0004000000000000002affffffff01000000000000000100"
_CONSUMER = "0008636f6e73756d657200000005000572616e676500026d31"
_HOST = "000163000a2f3132372e302e302e31"
_REST = "000027100000000201020000000103"
GROUP_VALUES = {
    0: f"0000{_CONSUMER}0000000100026d31{_HOST}{_REST}",
    1: f"0001{_CONSUMER}0000000100026d31{_HOST}0000ea60{_REST}",
    2: f"0002{_CONSUMER}0000018bcfe568000000000100026d31{_HOST}0000ea60{_REST}",
    3: f"0003{_CONSUMER}0000018bcfe568000000000100026d31000169{_HOST}0000ea60{_REST}",
    4: "000409636f6e73756d6572000000050672616e6765036d310000018bcfe5680002036d31026902630b"
    "2f3132372e302e302e310000ea600000271003010202030000",
}
EMPTY_GROUP = "0003000000000000ffffffff000000000000000900000000"


def offset_at(version: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=42,
        leader_epoch=3 if version >= 3 else -1,
        metadata="m",
        commit_timestamp=AT,
        expire_timestamp=AT + 1 if version == 1 else -1,
        topic_id=UUID(int=1 << 64 | 2) if version >= 4 else ZERO_UUID,
    )


def group_at(version: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m1",
        current_state_timestamp=AT if version >= 2 else -1,
        members=[
            MemberMetadata(
                member_id="m1",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000 if version >= 1 else -1,
                session_timeout=10_000,
                subscription=b"\1\2",
                assignment=b"\3",
            )
        ],
    )


def read_offset(value: bytes) -> OffsetCommitValue | None:
    record = decode(offset_key("g", "t", 0), value)
    assert isinstance(record, OffsetRecord)
    return record.value


def read_group(value: bytes) -> GroupMetadataValue | None:
    record = decode(group_key("g"), value)
    assert isinstance(record, GroupRecord)
    return record.value


def test_keys_are_kafkas() -> None:
    assert offset_key("grüppe", "orders", 7).hex() == OFFSET_KEY
    assert group_key("g").hex() == "0002000167"


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_kafkas_values_is_read(version: int) -> None:
    assert read_offset(bytes.fromhex(OFFSET_VALUES[version])) == offset_at(version)
    assert read_group(bytes.fromhex(GROUP_VALUES[version])) == group_at(version)


def test_the_versions_that_kafka_writes_are_written() -> None:
    def written(value: OffsetCommitValue) -> str:
        encoded = offset_record("g", "t", 0, value)[1]
        assert encoded is not None
        return encoded.hex()

    assert written(offset_at(4)) == OFFSET_VALUES[4]
    assert written(offset_at(1)) == OFFSET_VALUES[1]
    assert written(OffsetCommitValue(offset=42, commit_timestamp=1)) == OFFSET_WITHOUT_TOPIC_ID
    group = group_record("g", group_at(3))[1]
    assert group is not None
    assert group.hex() == GROUP_VALUES[3]
    empty = group_record("g", GroupMetadataValue(current_state_timestamp=9))[1]
    assert empty is not None
    assert empty.hex() == EMPTY_GROUP


def test_offset_keys_of_version_0_are_read() -> None:
    record = decode(b"\0\0" + offset_key("g", "t", 3)[2:], None)
    assert record == OffsetRecord(OffsetCommitKey(group="g", topic="t", partition=3), None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\1\0\5ab", None),
        (offset_key("g", "t", 0), b""),
        (offset_key("g", "t", 0), b"\0\4\0"),
        (offset_key("g", "t", 0), b"\0\5" + bytes(64)),
        (offset_key("g", "t", 0), b"\xff\xff" + bytes(64)),
        (group_key("g"), b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff" + bytes(8) + b"\x7f\xff\xff\xff"),
    ],
)
def test_broken_or_newer_bytes_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(WireError):
        decode(key, value)


@pytest.mark.parametrize("kind", [3, 14, -1])
def test_other_kinds_are_told_apart(kind: int) -> None:
    assert decode(kind.to_bytes(2, "big", signed=True) + b"rest", b"\0\x63") == UnknownRecord(kind)


names = st.text(max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=30)


@given(names, names, int32, int64, int32, names, int64, st.uuids())
def test_offsets_round_trip(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, at: int, topic_id: UUID
) -> None:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=at, topic_id=topic_id
    )
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert decode(*offset_record(group, topic, partition, value)) == OffsetRecord(key, value)
    assert decode(*offset_tombstone(group, topic, partition)) == OffsetRecord(key, None)


members = st.builds(
    MemberMetadata,
    member_id=names,
    group_instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout=int32,
    session_timeout=int32,
    subscription=blobs,
    assignment=blobs,
)
groups = st.builds(
    GroupMetadataValue,
    protocol_type=names,
    generation=int32,
    protocol=st.none() | names,
    leader=st.none() | names,
    current_state_timestamp=int64,
    members=st.lists(members, max_size=4),
)


@given(names, groups)
def test_groups_round_trip(group: str, value: GroupMetadataValue) -> None:
    key = GroupMetadataKey(group=group)
    assert decode(*group_record(group, value)) == GroupRecord(key, value)
    assert decode(*group_tombstone(group)) == GroupRecord(key, None)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_no_bytes_do_worse_than_be_refused(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except WireError:
        return
