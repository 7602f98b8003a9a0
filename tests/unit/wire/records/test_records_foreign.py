"""Our batches read by foreign clients' codecs, and theirs by ours."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

nullable = st.none() | st.binary(max_size=60)
record_headers = st.lists(st.tuples(st.text(max_size=8), nullable), max_size=3).map(tuple)
records = st.builds(Record, timestamp=st.integers(0, 2**45), key=nullable, value=nullable, headers=record_headers)
record_lists = st.lists(records, min_size=1, max_size=30)
producers = st.tuples(st.integers(0, 2**62), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))


def as_records(batch: Any) -> list[Record]:
    return [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((name, value) for name, value in r.headers)) for r in batch
    ]


def build(builder: Any, batch: list[Record]) -> bytes:
    for offset, record in enumerate(batch):
        builder.append(
            offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
    return bytes(builder.build())


def numbered(batch: list[Record], base_offset: int = 0) -> list[Record]:
    return [record._replace(offset=base_offset + n) for n, record in enumerate(batch)]


@pytest.mark.parametrize("codec", list(Codec))
@given(batch=record_lists, producer=producers, base_offset=st.integers(0, 2**61))
def test_aiokafka_reads_ours(
    codec: Codec, batch: list[Record], producer: tuple[int, int, int], base_offset: int
) -> None:
    ours = encode_batch(
        batch,
        codec=codec,
        base_offset=base_offset,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=True,
    )
    theirs = AioBatch(ours)
    assert theirs.validate_crc()
    assert theirs.is_transactional
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == producer
    assert theirs.next_offset == base_offset + len(batch)
    assert as_records(theirs) == numbered(batch, base_offset)


@pytest.mark.parametrize("codec", list(Codec))
@given(batch=record_lists, producer=producers)
def test_we_read_aiokafkas(codec: Codec, batch: list[Record], producer: tuple[int, int, int]) -> None:
    builder = AioBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=1 << 20,
    )
    header, decoded = decode_batch(build(builder, batch))
    assert decoded == numbered(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@given(batch=record_lists)
def test_kafka_python_reads_ours_and_we_read_its(codec: Codec, batch: list[Record]) -> None:
    theirs = KafkaPythonBatch(encode_batch(batch, codec=codec))
    assert theirs.validate_crc()
    assert as_records(theirs) == numbered(batch)
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    assert decode_batch(build(builder, batch))[1] == numbered(batch)


@given(batch=record_lists)
def test_uncompressed_batches_are_the_same_bytes_as_kafka_pythons(batch: list[Record]) -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        batch_size=1 << 20,
    )
    # It leaves the leader epoch 0 where Java leaves -1; brokers overwrite either.
    ours = encode_batch(batch, producer_id=4, producer_epoch=5, base_sequence=6, leader_epoch=0)
    assert build(builder, batch) == ours


def test_log_append_time_and_markers_as_foreign_clients_see_them() -> None:
    appended = encode_batch([Record(timestamp=5)], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=99)
    assert [r.timestamp for r in KafkaPythonBatch(appended)] == [99]
    marker = encode_end_txn_marker(
        EndTransactionMarker(committed=False, coordinator_epoch=3), producer_id=1, producer_epoch=2, timestamp=7
    )
    control = KafkaPythonBatch(marker)
    assert control.is_control_batch
    (record,) = control
    assert record.abort
    assert not record.commit
