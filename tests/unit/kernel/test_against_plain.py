"""The kernel gives what the plain decoder gives and refuses what it refuses, for any bytes at all.

Uncompressed input ends where readable memory ends: reading past it is no exception but the end of the process.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak import rounds
from tests.unit.kernel.lying import refused_or_same, resealed, varint
from tests.unit.kernel.twin import guarded, kernel_rows, twin_rows

from tidelog.kernel import CorruptBatch
from tidelog.storage.txn_index import AbortedTxn
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, read_header, seal, write_header
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, encode_batch, record_payload

nullable = st.none() | st.binary(max_size=30)
# As `plain` reads them: what is no UTF-8 as surrogates.
names = st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape")) | st.text(max_size=6)
records = st.builds(
    Record,
    # What encoders really write is near the first of the batch, on either side of it.
    timestamp=st.integers(1_700_000_000_000, 1_700_000_000_300) | st.integers(-1, 2**50),
    key=nullable,
    value=nullable,
    headers=st.lists(st.tuples(names, nullable), max_size=3).map(tuple),
)


class Batch(NamedTuple):
    """A batch to be encoded, and how far behind the one before it it begins."""

    gap: int
    records: list[Record]
    spaces: list[int]
    codec: Codec
    timestamp_type: TimestampType
    epoch: int
    producer: int
    is_transactional: bool


batches = st.builds(
    Batch,
    gap=st.integers(0, 3),
    records=st.lists(records, max_size=12),
    spaces=st.lists(st.integers(0, 2), min_size=13, max_size=13),
    codec=st.sampled_from(Codec),
    timestamp_type=st.sampled_from(TimestampType),
    epoch=st.integers(-1, 2**31 - 1),
    producer=st.integers(0, 2),
    is_transactional=st.booleans(),
)
markers = st.tuples(st.integers(0, 2), st.booleans())


def encoded(things: Sequence[Batch | tuple[int, bool]], base_offset: int) -> tuple[bytes, list[AbortedTxn]]:
    """A log with gaps as compaction leaves them, and the transactions that were aborted in it."""
    log = bytearray()
    begun: dict[int, int] = {}
    aborted: list[AbortedTxn] = []
    for thing in things:
        if isinstance(thing, tuple) and not isinstance(thing, Batch):
            producer, committed = thing
            log += encode_end_txn_marker(
                EndTransactionMarker(committed, 0),
                producer_id=producer,
                producer_epoch=0,
                timestamp=1,
                base_offset=base_offset,
            )
            if producer in begun and not committed:
                aborted.append(AbortedTxn(producer, begun[producer], base_offset, base_offset))
            begun.pop(producer, None)
            base_offset += 1
            continue
        base_offset += thing.gap
        kept = []
        offset = base_offset
        for record, space in zip(thing.records, thing.spaces, strict=False):
            offset += space
            kept.append(record._replace(offset=offset))
            offset += 1
        last_offset = offset + thing.spaces[-1]
        if thing.is_transactional:
            begun.setdefault(thing.producer, base_offset)
        log += encode_batch(
            kept,
            base_offset=base_offset,
            leader_epoch=thing.epoch,
            codec=thing.codec,
            timestamp_type=thing.timestamp_type,
            log_append_time=1_600_000_000_000,
            producer_id=thing.producer,
            is_transactional=thing.is_transactional,
            keep_offsets=True,
            last_offset_delta=last_offset - base_offset,
        )
        base_offset = last_offset + 1
    return bytes(log), aborted


@settings(max_examples=rounds(150, 3000))
@given(
    things=st.lists(st.one_of(batches, batches, markers), min_size=1, max_size=6),
    base_offset=st.integers(0, 100) | st.just(2**62),
    cut=st.tuples(st.just(0) | st.integers(0, 30), st.just(2**40) | st.integers(0, 60)),
    committed=st.booleans(),
    tail=st.just(0) | st.integers(0, 200),
    limits=st.tuples(st.sampled_from([1, 2, 3, 7, 8, 9, 1000]), st.sampled_from([1, 20, 100, 10_000])),
)
def test_any_log_in_any_range(
    things: list[Batch | tuple[int, bool]],
    base_offset: int,
    cut: tuple[int, int],
    committed: bool,
    tail: int,
    limits: tuple[int, int],
) -> None:
    log, aborted = encoded(things, base_offset)
    # A fetch cuts its last batch anywhere.
    log = log[: max(len(log) - tail, 0)]
    start = base_offset + cut[0]
    end = start + cut[1]
    transactions = aborted if committed else None
    expected = twin_rows(log, start, end, transactions)
    assert kernel_rows(guarded(log), start, end, transactions, max_rows=limits[0], max_bytes=limits[1]) == expected


def rarely(right: st.SearchStrategy[int], *wrong: int) -> st.SearchStrategy[int]:
    return st.integers(0, 15).flatmap(lambda n: st.sampled_from(wrong) if n == 15 else right)


edits = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(["set", "insert", "delete"]),
        st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) | st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=rounds(500, 4000))
@given(batch=batches, edited=edits, count=rarely(st.just(0), -1, 1), wrong_delta=rarely(st.just(0), -1, -3, -40))
def test_a_batch_with_wrong_bytes_in_it(
    batch: Batch, edited: list[tuple[int, str, int]], count: int, wrong_delta: int
) -> None:
    log, _ = encoded([batch], 10)
    header = read_header(log)
    payload = bytearray(record_payload(log, header, 1 << 20))
    for place, edit, byte in edited:
        at = place % (len(payload) + 1)
        payload[at : at + (edit != "insert")] = b"" if edit == "delete" else bytes([byte])
    refused_or_same(
        resealed(
            log,
            bytes(payload),
            record_count=header.record_count + count,
            last_offset_delta=max(header.last_offset_delta + wrong_delta, -1),
        )
    )


EDGES = (-(2**63), -(2**31) - 1, -(2**31), -65, -2, 2**31 - 1, 2**31, 2**32, 2**63 - 1)
# Ends of a varint that are too long, or hold too much, or are longer than they need to be.
odd_varints = st.sampled_from(
    [b"\xff" * 4 + b"\x1f", b"\xff" * 9 + b"\x02", b"\xff" * 12, b"\x80" * 4 + b"\x00", b"\x80"]
)
# A length that is off by so much, or null, or odd.
lies = rarely(st.just(0), 1, -1, 2**31 - 1, -(2**31))


@st.composite
def fields(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 40)) == 40:
        return draw(odd_varints)
    content = draw(st.none() | st.binary(max_size=8))
    if content is None:
        return varint(draw(rarely(st.just(-1), -2)))
    return varint(len(content) + draw(lies)) + content


@st.composite
def raw_records(draw: st.DrawFn, number: int) -> bytes:
    headers = draw(st.lists(st.tuples(st.binary(max_size=4), fields()), max_size=2))
    body = b"\x00"
    body += (
        draw(odd_varints) if draw(st.integers(0, 30)) == 30 else varint(draw(rarely(st.integers(-300, 300), *EDGES)))
    )
    body += varint(draw(rarely(st.just(number), *EDGES, -1, 70, 71)))
    body += draw(fields()) + draw(fields())
    body += varint(len(headers) + draw(lies))
    for name, value in headers:
        body += (varint(len(name)) + name if draw(st.integers(0, 20)) < 20 else draw(fields())) + value
    return varint(len(body) + draw(lies)) + body


@settings(max_examples=rounds(500, 4000))
@given(
    data=st.data(),
    count=st.integers(0, 4),
    base_timestamp=st.sampled_from([0, 0, -1, 2**63 - 1, -(2**63), 9_223_372_036_854_775, -9_223_372_036_854_775]),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_records_with_lengths_that_lie(
    data: st.DataObject, count: int, base_timestamp: int, timestamp_type: TimestampType
) -> None:
    payload = b"".join(data.draw(raw_records(number)) for number in range(count))
    empty = encode_batch([], base_offset=5, last_offset_delta=70, timestamp_type=timestamp_type)
    refused_or_same(resealed(empty, payload, record_count=count, base_timestamp=base_timestamp))


@settings(max_examples=rounds(200, 5000))
@given(batch=batches, flips=st.lists(st.tuples(st.integers(0, 500), st.integers(1, 255)), min_size=1, max_size=3))
def test_a_batch_that_was_damaged_on_its_way(batch: Batch, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(encoded([batch], 10)[0])
    for place, bits in flips:
        damaged[place % len(damaged)] ^= bits
    log = bytes(damaged)
    try:
        expected = twin_rows(log, 0, 2**63 - 1)
    except WireError:
        with pytest.raises(CorruptBatch):
            kernel_rows(guarded(log), 0, 2**63 - 1)
        return
    # Base offset and epoch lie outside of the CRC; a control batch or one of another length has no rows to compare.
    assert kernel_rows(guarded(log), 0, 2**63 - 1) == expected


@settings(max_examples=rounds(60, 3000))
@given(batch=batches, packed=st.binary(max_size=200), codec=st.sampled_from([codec for codec in Codec if codec]))
def test_compressed_bytes_that_are_none(batch: Batch, packed: bytes, codec: Codec) -> None:
    header = read_header(encoded([batch], 10)[0])
    header = header._replace(
        batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(packed), attributes=header.attributes & ~7 | codec
    )
    buffer = bytearray(BATCH_OVERHEAD) + packed
    write_header(buffer, header)
    seal(buffer, header)
    refused_or_same(bytes(buffer))
