"""What the decoder gives, how much at a time, and where it stands afterwards."""

from collections.abc import Iterable
from typing import Any

import cramjam
import pyarrow as pa
import pytest
from tests.unit.kernel.twin import PARTITION, TOPIC, Row, kernel_rows, rows_of

from tidelog.kernel import CorruptBatch, Decoder, native, schema
from tidelog.kernel.columns import MOST_BYTES, MOST_ROWS
from tidelog.kernel.decoder import MOST_DECOMPRESSED
from tidelog.storage.txn_index import AbortedTxn
from tidelog.wire.errors import WireError
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, read_header, seal, write_header
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, encode_batch, record_payload

END = 2**63 - 1
NOW_MS = 1_700_000_000_123


def some(count: int, size: int = 10) -> list[Record]:
    return [Record(timestamp=NOW_MS + n, key=b"k%d" % n, value=b"v" * size) for n in range(count)]


def decoder(start: int = 0, end: int = END, **options: Any) -> Decoder:
    return Decoder(TOPIC, PARTITION, start, end, headers=True, epoch=True, **options)


def offsets(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def all_of(decoder: Decoder, records: bytes, aborted: list[AbortedTxn] | None = None) -> list[int]:
    return offsets([*decoder.feed(records, aborted), *decoder.flush()])


def repacked(batch: bytes, packed: bytes, codec: Codec, **changes: int) -> bytes:
    header = read_header(batch)._replace(
        batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(packed), attributes=int(codec), **changes
    )
    buffer = bytearray(BATCH_OVERHEAD) + packed
    write_header(buffer, header)
    seal(buffer, header)
    return bytes(buffer)


def test_the_schema_is_that_of_sparks_own_source() -> None:
    fields = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
    }
    assert schema(headers=False, epoch=False) == pa.schema(fields)
    header = pa.struct({"key": pa.string(), "value": pa.binary()})
    more = {"headers": pa.list_(pa.field("element", header)), "leaderEpoch": pa.int32()}
    assert schema(headers=True, epoch=True) == pa.schema(fields | more)
    assert decoder().schema == schema(headers=True, epoch=True)
    log = encode_batch([Record(value=b"v", headers=(("name", b"value"),))])
    [batch] = [*(plain := Decoder(TOPIC, PARTITION, 0, END)).feed(log), *plain.flush()]
    assert batch.schema == schema(headers=False, epoch=False)
    assert batch.column("value").to_pylist() == [b"v"]


@pytest.mark.parametrize("codec", Codec)
def test_every_column_under_every_codec(codec: Codec) -> None:
    records = [
        Record(timestamp=NOW_MS, key=b"k", value=b"v", headers=(("h", b"1"), ("h", None), ("", b""))),
        Record(timestamp=NOW_MS - 7, key=None, value=b""),
        Record(timestamp=-1, key=b"", value=None, headers=(("zäh", b"2"),)),
    ]
    batch = encode_batch(records, base_offset=40, leader_epoch=9, codec=codec)
    assert kernel_rows(batch, 0, END) == [
        Row(b"k", b"v", 40, NOW_MS * 1000, 0, [("h", b"1"), ("h", None), ("", b"")], 9),
        Row(None, b"", 41, (NOW_MS - 7) * 1000, 0, None, 9),
        Row(b"", None, 42, -1000, 0, [("zäh", b"2")], 9),
    ]


def test_snappy_as_librdkafka_writes_it_without_javas_frames() -> None:
    batch = encode_batch(some(50))
    raw = bytes(cramjam.snappy.compress_raw(record_payload(batch, read_header(batch), 1 << 20)))
    assert kernel_rows(repacked(batch, raw, Codec.SNAPPY), 0, END) == kernel_rows(batch, 0, END)


def test_log_append_time_is_the_batchs_own_for_every_record() -> None:
    batch = encode_batch(some(3), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW_MS + 99)
    assert [(row.timestamp_us, row.timestamp_type) for row in kernel_rows(batch, 0, END)] == [
        ((NOW_MS + 99) * 1000, 1)
    ] * 3


def test_a_range_is_cut_exactly_within_batches() -> None:
    log = encode_batch(some(5)) + encode_batch(some(5), base_offset=5) + encode_batch(some(5), base_offset=10)
    reader = decoder(3, 12)
    assert all_of(reader, log) == list(range(3, 12))
    assert reader.done
    assert reader.next_offset == 12
    assert all_of(decoder(5, 5), log) == []
    assert all_of(decoder(15, 20), log) == []


def test_what_compaction_took_away_is_passed_over() -> None:
    kept = [Record(offset=offset) for offset in (12, 15, 30)]
    log = encode_batch(kept, base_offset=10, keep_offsets=True, last_offset_delta=25, leader_epoch=1)
    log += encode_batch([], base_offset=40, last_offset_delta=9, leader_epoch=2)
    reader = decoder(11)
    assert all_of(reader, log) == [12, 15, 30]
    assert (reader.next_offset, reader.last_epoch, reader.done) == (50, 2, False)


def test_a_range_that_ends_in_a_gap_is_done_when_a_later_batch_shows_it() -> None:
    reader = decoder(0, 20)
    assert all_of(reader, encode_batch(some(5), leader_epoch=1)) == [0, 1, 2, 3, 4]
    assert (reader.next_offset, reader.done) == (5, False)
    assert all_of(reader, encode_batch(some(5), base_offset=30, leader_epoch=8)) == []
    assert (reader.next_offset, reader.done, reader.last_epoch) == (20, True, 1)


def test_answers_that_overlap_give_nothing_twice() -> None:
    log = encode_batch(some(5)) + encode_batch(some(5), base_offset=5)
    reader = decoder()
    given = [*reader.feed(log), *reader.feed(log), *reader.feed(encode_batch(some(8), base_offset=8)), *reader.flush()]
    assert offsets(given) == list(range(16))


def test_a_last_batch_that_was_cut_waits_for_the_next_answer() -> None:
    first = encode_batch(some(5))
    second = encode_batch(some(5), base_offset=5)
    for cut in (0, 1, 8, 60, 61, len(second) - 1):
        reader = decoder()
        assert all_of(reader, first + second[:cut]) == [0, 1, 2, 3, 4]
        assert reader.next_offset == 5
    with pytest.raises(CorruptBatch, match=r"the batch at offset 5: batch at .* bytes are left"):
        list(decoder().feed(first + second[:-1], partial_tail=False))
    with pytest.raises(CorruptBatch, match="a batch without a whole header"):
        list(decoder().feed(first + second[:7], partial_tail=False))


def test_transactions() -> None:
    def batch(offset: int, producer: int) -> bytes:
        return encode_batch(some(2), base_offset=offset, producer_id=producer, is_transactional=True)

    def marker(offset: int, producer: int, committed: bool) -> bytes:
        return encode_end_txn_marker(
            EndTransactionMarker(committed, 0),
            producer_id=producer,
            producer_epoch=0,
            timestamp=NOW_MS,
            base_offset=offset,
        )

    log = batch(0, 1) + batch(2, 2) + marker(4, 1, False) + batch(5, 1) + marker(7, 1, True) + marker(8, 2, True)
    aborted = [AbortedTxn(1, 0, 4, 0)]
    assert all_of(decoder(), log, aborted) == [2, 3, 5, 6]
    # Control batches are nobody's records, whatever is read.
    assert all_of(decoder(), log) == [0, 1, 2, 3, 5, 6]
    # The marker lies before what is read, and still ends its transaction.
    reader = decoder(4)
    assert all_of(reader, log, aborted) == [5, 6]
    assert reader.next_offset == 9


def test_batches_are_full_or_last() -> None:
    log = b"".join(encode_batch(some(7), base_offset=offset) for offset in range(0, 70, 7))
    sizes = [batch.num_rows for batch in decoder(max_rows=16).feed(log)]
    assert sizes == [16] * 4
    reader = decoder(max_rows=16)
    assert offsets([*reader.feed(log), *reader.flush()]) == list(range(70))
    assert list(reader.flush()) == []


def test_bytes_bound_a_batch_as_rows_do() -> None:
    log = encode_batch(some(100, size=1000))
    batches = [*(reader := decoder(max_bytes=10_000)).feed(log), *reader.flush()]
    assert offsets(batches) == list(range(100))
    assert max(batch.num_rows for batch in batches) == 9
    assert all(batch.nbytes < 11_000 for batch in batches)
    assert sum(len(b.column("value").buffers()[2]) for b in batches) < 120_000


@pytest.mark.parametrize(("max_bytes", "rows"), [(1099, 10), (1100, 11), (1101, 11)])
def test_a_batch_that_fits_to_the_byte_fits(max_bytes: int, rows: int) -> None:
    log = encode_batch([Record(key=b"k" * 10, value=b"v" * 71, headers=(("n" * 5, b"h" * 6),))] * 30)
    first = next(decoder(max_bytes=max_bytes).feed(log))
    assert first.num_rows == rows


def test_headers_count_by_what_they_take_in_memory() -> None:
    """Two bytes of a batch are eight of a column: a record of many headers is one to bound."""
    many = Record(headers=(("", None),) * 10_000)
    batches = [*(reader := decoder(max_bytes=100_000)).feed(encode_batch([many] * 5)), *reader.flush()]
    assert [batch.num_rows for batch in batches] == [1] * 5
    assert all(len(batch.column("headers")[0]) == 10_000 for batch in batches)
    assert rows_of(batches)[4].headers == [("", None)] * 10_000
    without = Decoder(TOPIC, PARTITION, 0, END, max_bytes=100_000)
    assert [batch.num_rows for batch in [*without.feed(encode_batch([many] * 5)), *without.flush()]] == [5]


def test_a_record_larger_than_the_bound_makes_a_batch_of_its_own() -> None:
    records = [*some(2), Record(key=b"K" * 70_000, value=b"V" * 60_000, headers=(("n" * 9000, b"h" * 9000),)), *some(2)]
    reader = decoder(max_bytes=1000)
    batches = [*reader.feed(encode_batch(records)), *reader.flush()]
    assert [batch.num_rows for batch in batches] == [2, 1, 2]
    assert rows_of(batches)[2][:2] == (b"K" * 70_000, b"V" * 60_000)
    assert offsets(batches) == [0, 1, 2, 3, 4]


def test_batches_stay_as_they_are_when_more_comes() -> None:
    reader = decoder(max_rows=4)
    log = encode_batch([Record(value=b"%d" % n, headers=(("n", b"%d" % n),)) for n in range(4)])
    other = encode_batch([Record(value=b"x", headers=(("x", b"x"),)) for _ in range(9)], base_offset=4)
    buffer = bytearray(log + other)
    [first, *_] = [*reader.feed(buffer), *reader.flush()]
    buffer[:] = bytes(len(buffer))
    assert first.column("value").to_pylist() == [b"0", b"1", b"2", b"3"]
    assert [row.headers for row in rows_of([first])] == [[("n", b"%d" % n)] for n in range(4)]


def test_a_batch_of_few_rows_does_not_hold_the_memory_of_many() -> None:
    reader = decoder(max_rows=100_000)
    list(reader.feed(encode_batch(some(1000, size=1000))))
    list(reader.flush())
    [batch] = [*reader.feed(encode_batch(some(1), base_offset=1000)), *reader.flush()]
    buffers = [buffer for column in ("key", "value", "offset") for buffer in batch.column(column).buffers() if buffer]
    assert sum(buffer.size for buffer in buffers) < 100


def test_a_refused_batch_names_its_offset_and_gives_no_row() -> None:
    good = encode_batch(some(5), base_offset=100)
    bad = bytearray(encode_batch(some(5), base_offset=105))
    payload = bytearray(bad[BATCH_OVERHEAD:])
    payload[-1] = 7  # headers that are not there, in the last record
    reader = decoder(100, max_rows=2)
    given = []
    with pytest.raises(CorruptBatch) as refused:
        for batch in reader.feed(good + repacked(bytes(bad), bytes(payload), Codec.NONE)):
            given.append(batch)
    assert isinstance(refused.value, WireError)
    assert refused.value.base_offset == 105
    assert str(refused.value) == ("orders-3, the batch at offset 105: record 4 is too short for its number of headers")
    assert reader.next_offset == 105
    # What came before it is not lost.
    assert offsets([*given, *reader.flush()]) == [100, 101, 102, 103, 104]


def test_after_a_refused_batch_the_same_decoder_goes_on_with_a_good_one() -> None:
    """Fetched again, it may be whole: nothing of the first try is left, least of all which fields were null."""
    first = [Record(key=None if n % 3 else b"k", value=b"v", headers=(("h", b"x"),) * (n % 2)) for n in range(5)]
    full = [Record(key=b"key", value=b"value", headers=(("name", b"1"),) * 3)] * 9
    nulls = [Record(headers=(("n", None),) * (n % 3)) for n in range(9)]
    whole = encode_batch(full, base_offset=5)
    broken = repacked(whole, whole[BATCH_OVERHEAD:-1], Codec.NONE)
    reader = decoder()
    assert list(reader.feed(encode_batch(first))) == []
    with pytest.raises(CorruptBatch, match="record 8"):
        list(reader.feed(broken))
    again = encode_batch(nulls, base_offset=5)
    given = rows_of([*reader.feed(again), *reader.flush()])
    assert given == kernel_rows(encode_batch(first), 0, END) + kernel_rows(again, 0, END)


def test_a_batch_that_was_not_signed_so_is_refused_unless_asked_for() -> None:
    batch = bytearray(encode_batch(some(5), base_offset=3))
    batch[-3] ^= 1
    with pytest.raises(CorruptBatch, match="orders-3, the batch at offset 3: it does not match its CRC"):
        list(decoder().feed(batch))
    unchecked = Decoder(TOPIC, PARTITION, 0, END, verify_crc=False)
    assert offsets([*unchecked.feed(batch), *unchecked.flush()]) == [3, 4, 5, 6, 7]


def test_no_wrong_bit_makes_records_go_without_a_word() -> None:
    """Marked as a control batch, as another producer's, or as older than it is, a batch would be left out."""
    batch = encode_batch(some(5), base_offset=3, producer_id=1, is_transactional=True)
    for place in range(21, BATCH_OVERHEAD):
        damaged = bytearray(batch)
        damaged[place] ^= 0x20
        with pytest.raises(CorruptBatch, match="CRC"):
            list(decoder(4).feed(damaged, [AbortedTxn(33, 0, 9, 0)]))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_bomb_is_refused_before_it_has_grown(codec: Codec) -> None:
    bomb = encode_batch([Record(value=bytes(4 << 20))], base_offset=8, codec=codec)
    assert len(bomb) < 1 << 18
    with pytest.raises(CorruptBatch, match=r"the batch at offset 8: .* 1048576"):
        list(decoder(max_decompressed=1 << 20).feed(bomb))
    assert all_of(decoder(), bomb) == [8]


def test_other_formats_and_codecs_are_refused_by_name() -> None:
    old = bytearray(encode_batch(some(2), base_offset=77))
    old[16] = 1
    with pytest.raises(CorruptBatch, match=r"the batch at offset 77: .* magic 1"):
        list(decoder().feed(old))
    batch = encode_batch(some(2), base_offset=77)
    header = read_header(batch)
    odd = bytearray(batch)
    write_header(odd, header._replace(attributes=5))
    seal(odd, header)
    with pytest.raises(CorruptBatch, match="the batch at offset 77: unknown compression codec id 5"):
        list(decoder().feed(odd))


def test_a_marker_that_is_none_is_refused_where_it_counts() -> None:
    batch = encode_batch([Record(key=b"?")], base_offset=6, is_control=True, is_transactional=True, producer_id=1)
    assert all_of(decoder(), batch) == []
    with pytest.raises(CorruptBatch, match="the batch at offset 6: a control record's key"):
        list(decoder().feed(batch, []))


def test_an_offset_outside_of_its_batch_is_refused() -> None:
    """To cut a range exactly would be to lose it."""
    batch = encode_batch([Record(offset=5), Record(offset=9)], base_offset=5, keep_offsets=True, last_offset_delta=3)
    with pytest.raises(CorruptBatch, match="record 1 has an offset outside of its batch"):
        list(decoder().feed(batch))


@pytest.mark.parametrize("ms", [native.MAX_TIMESTAMP_MS + 1, -native.MAX_TIMESTAMP_MS - 1])
def test_a_timestamp_that_no_column_holds_is_refused(ms: int) -> None:
    for kind in TimestampType:
        batch = encode_batch([Record(timestamp=ms)], base_offset=5, timestamp_type=kind, log_append_time=ms)
        with pytest.raises(CorruptBatch, match="64 bits of microseconds"):
            list(decoder().feed(batch))
    fits = encode_batch([Record(timestamp=native.MAX_TIMESTAMP_MS)])
    assert kernel_rows(fits, 0, END)[0].timestamp_us == native.MAX_TIMESTAMP_MS * 1000


def test_names_that_are_not_utf8_read_as_in_java() -> None:
    raw = [
        b"\xff",
        b"a\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
        b"ok",
    ]
    headers = tuple((name.decode("utf-8", "surrogateescape"), name) for name in raw)
    [row] = kernel_rows(encode_batch([Record(headers=headers)]), 0, END)
    assert row.headers == [(name.decode("utf-8", "replace"), name) for name in raw]


def test_bounds_are_checked() -> None:
    for wrong in (
        {"max_rows": 0},
        {"max_rows": MOST_ROWS + 1},
        {"max_bytes": 0},
        {"max_bytes": MOST_BYTES + 1},
        {"max_decompressed": 0},
        {"max_decompressed": MOST_DECOMPRESSED + 1},
    ):
        with pytest.raises(ValueError, match="at most"):
            decoder(**wrong)
    for start, end in ((-1, 5), (6, 5), (0, 2**63)):
        with pytest.raises(ValueError, match="no range of offsets"):
            decoder(start, end)
