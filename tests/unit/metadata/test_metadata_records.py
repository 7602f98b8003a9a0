"""Metadata records are Kafka's byte for byte. The hex texts were written by Kafka 4.3's own serializer."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.metadata import records as r
from tidelog.wire.errors import WireError
from tidelog.wire.schema import Array, FieldSpec, Primitive, field_specs, spec_of

U = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
W = UUID(int=0x1112131415161718191A1B1C1D1E1F20)


def register_broker(version: int) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker_id=3,
        incarnation_id=U,
        broker_epoch=77,
        rack="r1",
        end_points=[r.Endpoint(name="PLAINTEXT", host="h", port=60000)],
        features=[r.SupportedFeature(name="f", min_supported_version=1, max_supported_version=2)],
        in_controlled_shutdown=version >= 1,
        log_dirs=[U, W] if version >= 3 else [],
        cordoned_log_dirs=[W] if version >= 4 else None,
    )


def partition(**more: Any) -> r.PartitionRecord:
    base: dict[str, Any] = {
        "partition_id": 1,
        "topic_id": U,
        "replicas": [2, 3],
        "isr": [2],
        "leader": 2,
        "leader_epoch": 5,
        "partition_epoch": 6,
        "directories": [U, W],
    }
    return r.PartitionRecord(**{**base, **more})


GOLDEN: list[tuple[r.MetadataRecord, int, str]] = [
    (
        register_broker(0),
        0,
        "010000000000030102030405060708090a0b0c0d0e0f10000000000000004d020a504c41494e544558540268ea600000"
        "0002026600010002000372310100",
    ),
    (
        register_broker(3),
        3,
        "01000300000003000102030405060708090a0b0c0d0e0f10000000000000004d020a504c41494e544558540268ea6000"
        "000002026600010002000372310101010021030102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
    ),
    (
        register_broker(4),
        4,
        "01000400000003000102030405060708090a0b0c0d0e0f10000000000000004d020a504c41494e544558540268ea6000"
        "000002026600010002000372310101020021030102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
        "0111021112131415161718191a1b1c1d1e1f20",
    ),
    (r.UnregisterBrokerRecord(broker_id=3, broker_epoch=77), 0, "01010000000003000000000000004d00"),
    (r.TopicRecord(name="orders", topic_id=U), 0, "010200076f72646572730102030405060708090a0b0c0d0e0f1000"),
    (
        partition(),
        2,
        "010302000000010102030405060708090a0b0c0d0e0f1003000000020000000302000000020101000000020000000500000006"
        "030102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2000",
    ),
    (
        partition(
            leader_recovery_state=1,
            eligible_leader_replicas=[3],
            last_known_elr=[2],
            removing_replicas=[3],
            adding_replicas=[1],
        ),
        2,
        "010302000000010102030405060708090a0b0c0d0e0f1003000000020000000302000000020200000003020000000100000002"
        "0000000500000006030102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
        "030001010105020000000302050200000002",
    ),
    (
        partition(directories=[]),
        0,
        "010300000000010102030405060708090a0b0c0d0e0f100300000002000000030200000002010100000002000000050000000600",
    ),
    (
        r.PartitionChangeRecord(partition_id=4, topic_id=U),
        2,
        "010502000000040102030405060708090a0b0c0d0e0f1000",
    ),
    (
        r.PartitionChangeRecord(
            partition_id=4,
            topic_id=U,
            isr=[],
            leader=-1,
            replicas=[1, 2],
            removing_replicas=[2],
            adding_replicas=[1],
            leader_recovery_state=1,
            directories=[U, W],
            eligible_leader_replicas=[1],
            last_known_elr=[2],
        ),
        2,
        "010502000000040102030405060708090a0b0c0d0e0f10090001010104ffffffff020903000000010000000203050200000002"
        "0405020000000105010106050200000001070502000000020821030102030405060708090a0b0c0d0e0f101112131415161718"
        "191a1b1c1d1e1f20",
    ),
    (
        r.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
        0,
        "01040002076f72646572730d726574656e74696f6e2e6d73023100",
    ),
    (r.ConfigRecord(resource_type=4, resource_name="", name="k", value=None), 0, "0104000401026b0000"),
    (r.FenceBrokerRecord(id=3, epoch=77), 0, "01070000000003000000000000004d00"),
    (r.UnfenceBrokerRecord(id=3, epoch=77), 0, "01080000000003000000000000004d00"),
    (r.RemoveTopicRecord(topic_id=U), 0, "0109000102030405060708090a0b0c0d0e0f1000"),
    (
        r.FeatureLevelRecord(name="metadata.version", feature_level=30),
        0,
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        r.ClientQuotaRecord(
            entity=[r.EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", value=1024.5
        ),
        0,
        "010e0002057573657200001370726f64756365725f627974655f7261746540900200000000000000",
    ),
    (
        r.ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=1000),
        0,
        "010f0000000001000000000000000900000000000003e800",
    ),
    (
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=-1),
        0,
        "011100000000010000000000000009010001ff",
    ),
    (
        r.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=9, fenced=1, in_controlled_shutdown=1, log_dirs=[U], cordoned_log_dirs=[]
        ),
        3,
        "011103000000010000000000000009040001010101010211020102030405060708090a0b0c0d0e0f10030101",
    ),
    (r.NoOpRecord(), 0, "01140000"),
    (r.BeginTransactionRecord(name="b"), 0, "0117000100020262"),
    (r.BeginTransactionRecord(), 0, "01170000"),
    (r.EndTransactionRecord(), 0, "01180000"),
    (r.AbortTransactionRecord(reason="r"), 0, "0119000100020272"),
    (
        r.RegisterControllerRecord(
            controller_id=5,
            incarnation_id=U,
            end_points=[r.Endpoint(name="C", host="h", port=9093)],
            features=[r.SupportedFeature(name="f", min_supported_version=1, max_supported_version=2)],
        ),
        0,
        "011b00000000050102030405060708090a0b0c0d0e0f100002024302682385000000020266000100020000",
    ),
    (r.ClearElrRecord(topic_name="orders"), 0, "011c00076f726465727300"),
]


@pytest.mark.rule("C1")
@pytest.mark.parametrize(("record", "version", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_bytes_are_kafkas(record: r.MetadataRecord, version: int, expected: str) -> None:
    assert r.frame(record, version).hex() == expected
    assert r.unframe(bytes.fromhex(expected)) == record


def test_every_known_type_has_a_golden() -> None:
    assert {type(record) for record, _, _ in GOLDEN} == set(r.RECORD_TYPES.values())


def values_for(spec: FieldSpec) -> st.SearchStrategy[Any]:
    kind = spec.type
    if isinstance(kind, Array):
        item = item_values(kind.item) if isinstance(kind.item, Primitive) else instances(kind.item)
        values: st.SearchStrategy[Any] = st.lists(item, max_size=4)
    else:
        assert isinstance(kind, Primitive)
        values = item_values(kind)
    return st.none() | values if spec.nullable.low <= spec.nullable.high else values


def item_values(kind: Primitive) -> st.SearchStrategy[Any]:
    if kind.name == "bool":
        return st.booleans()
    if kind.name == "float64":
        return st.floats(allow_nan=False)
    if kind.name == "uuid":
        return st.uuids()
    if kind.name == "string":
        return st.text(max_size=20)
    if kind.name == "uint16":
        return st.integers(0, 2**16 - 1)
    bits = kind.size * 8
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def instances(cls: type) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: values_for(spec) for name, spec in field_specs(cls)})


any_record = st.sampled_from(sorted(r.RECORD_TYPES.values(), key=lambda cls: cls.__name__)).flatmap(instances)


@given(any_record)
def test_round_trip(record: r.MetadataRecord) -> None:
    assert r.unframe(r.frame(record)) == record


@given(any_record, st.data())
def test_a_cut_record_is_refused(record: r.MetadataRecord, data: st.DataObject) -> None:
    framed = r.frame(record)
    cut = data.draw(st.integers(0, len(framed) - 1))
    with pytest.raises(WireError):
        r.unframe(framed[:cut])


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "ends inside its frame"),
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00\x00", "type 99 is unknown"),
        (b"\x01\x14\x05\x00", "NoOpRecord version 5"),
        (b"\x01\x14\x00\x00\x00", "1 bytes follow"),
    ],
)
def test_what_is_not_known_is_not_skipped(value: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        r.unframe(value)


def test_written_versions_are_the_newest() -> None:
    assert {cls.__name__: r.write_version(cls) for cls in r.RECORD_TYPES.values() if r.write_version(cls)} == {
        "RegisterBrokerRecord": 4,
        "PartitionRecord": 2,
        "PartitionChangeRecord": 2,
        "BrokerRegistrationChangeRecord": 3,
    }
    assert all(spec_of(cls).api_key == key for key, cls in r.RECORD_TYPES.items())
