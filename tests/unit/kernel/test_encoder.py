"""The encoder writes what the plain encoder writes, byte for byte, where Java's clients would; and what it refuses."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.soak import rounds
from tests.unit.kernel.test_cost import blocks_of, calls_of
from tests.unit.kernel.twin import guarded

from tidelog.client.partitioner import partition_for_key
from tidelog.kernel import BadRow, Encoder, Filled, native_rows
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import read_header, stamp_producer
from tidelog.wire.records.plain import Record, decode_batch, encode_batch

NOW_MS = 1_700_000_000_000
PARTITIONS = {"orders": 3, "refunds": 1}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", HEADERS),
    ]
)

nullable = st.none() | st.binary(max_size=40)
header_lists = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": nullable}), max_size=3)
# A row that says its partition says so in a header too, by which it is known again.
ZERO = "goes to partition 0"
row = st.fixed_dictionaries(
    {
        "key": nullable,
        "value": nullable | st.binary(min_size=100, max_size=300),
        "topic": st.sampled_from(sorted(PARTITIONS)),
    }
)
rows_to = st.one_of(
    st.builds(lambda row, headers: row | {"partition": None, "headers": headers}, row, header_lists),
    st.builds(lambda row: row | {"partition": 0, "headers": [{"key": ZERO, "value": None}]}, row),
)


def encoded(encoder: Encoder, *batches: pa.RecordBatch) -> list[Filled]:
    """Each batch a second after the one before it."""
    found: list[Filled] = []
    for number, batch in enumerate(batches):
        unknown = encoder.unknown_topics(batch)
        if unknown:
            found += encoder.tell({topic: PARTITIONS[topic] for topic in unknown})
        found += encoder.add(batch, NOW_MS + 1000 * number)
    found += encoder.flush()
    for each in found:
        stamp_producer(each.batch, 7, 0, 5)
    return found


def rows_of(filled: list[Filled]) -> list[tuple[str, int, Record]]:
    return [(each.topic, each.partition, record) for each in filled for record in decode_batch(each.batch)[1]]


def in_edge_memory(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same, its values where readable memory ends."""
    values = batch.column("value")
    buffers = values.buffers()
    if buffers[2] is None or values.offset:
        return batch
    data = pa.py_buffer(guarded(bytes(buffers[2])[: buffers[2].size]))
    moved = pa.Array.from_buffers(values.type, len(values), [buffers[0], buffers[1], data])
    return batch.set_column(batch.schema.get_field_index("value"), "value", moved)


@given(
    rows=st.lists(rows_to, max_size=40),
    cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
    batch_bytes=st.sampled_from([1024, 2000, 1 << 16]),
    forms=st.booleans(),
)
@settings(max_examples=rounds(40, 1000), deadline=None)
def test_byte_for_byte_as_the_plain_encoder_and_in_order(
    rows: list[dict[str, Any]], cuts: tuple[int, int], codec: Codec, batch_bytes: int, forms: bool
) -> None:
    # So that the order of all that have a value can be told.
    numbered = [row | {"value": row["value"] and b"%03d" % at + row["value"]} for at, row in enumerate(rows)]
    whole = pa.RecordBatch.from_pylist(numbered, schema=SCHEMA)
    if forms:
        whole = whole.set_column(0, "key", whole.column(0).cast(pa.large_binary()))
    first, second = sorted(min(cut, len(rows)) for cut in cuts)
    # Slices have offsets into what they are slices of.
    parts = [whole.slice(0, first), whole.slice(first, second - first), whole.slice(second)]
    filled = encoded(Encoder(None, batch_bytes=batch_bytes, codec=codec), *map(in_edge_memory, parts))
    for each in filled:
        _, records = decode_batch(each.batch)
        assert each.batch == encode_batch(records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=5)
        assert len(each.batch) <= batch_bytes or codec is not Codec.NONE
    found = rows_of(filled)
    times = [NOW_MS + 1000 * ((at >= first) + (at >= second)) for at in range(len(rows))]
    assert sorted(map(repr, map(told, found))) == sorted(map(repr, map(wanted, numbered, times)))
    for place in {(topic, partition) for topic, partition, _ in found}:
        values = [record.value[:3] for *where, record in found if tuple(where) == place and record.value]
        assert values == sorted(values)


def told(row: tuple[str, int, Record]) -> tuple[Any, ...]:
    """What a record says, and its partition if there is only one where it may be."""
    topic, partition, record = row
    is_free = record.key is None and not any(name == ZERO for name, _ in record.headers)
    return topic, None if is_free else partition, record.timestamp, record.key, record.value, record.headers


def wanted(row: dict[str, Any], timestamp: int) -> tuple[Any, ...]:
    topic, key = row["topic"], row["key"]
    partition = row["partition"]
    if partition is None and key is not None:
        partition = partition_for_key(key, PARTITIONS[topic])
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return topic, partition, timestamp, key, row["value"], headers


@given(key=st.binary(max_size=70), count=st.integers(1, 1000))
@settings(max_examples=rounds(50, 5000), deadline=None)
def test_keys_go_where_java_puts_them(key: bytes, count: int) -> None:
    encoder = Encoder("orders", batch_bytes=4096)
    assert list(encoder.tell({"orders": count})) == []
    batch = pa.record_batch({"key": [key], "value": [b"v"]})
    assert [each.partition for each in [*encoder.add(batch, NOW_MS), *encoder.flush()]] == [
        partition_for_key(key, count)
    ]


def test_rows_without_a_key_fill_one_partition_after_the_other() -> None:
    encoder = Encoder("orders", batch_bytes=1024, first_partition=4)
    filled = encoded(encoder, pa.record_batch({"value": ["x" * 100] * 40}))
    assert [each.partition for each in filled[:4]] == [1, 2, 0, 1]
    assert sum(decode_batch(each.batch)[0].record_count for each in filled) == 40


def test_a_record_larger_than_a_batch_has_one_to_itself() -> None:
    values = ["a", "b" * 5000, "c"]
    filled = encoded(Encoder("refunds", batch_bytes=1024), pa.record_batch({"key": ["k"] * 3, "value": values}))
    assert [[record.value for record in decode_batch(each.batch)[1]] for each in filled] == [
        [b"a"],
        [b"b" * 5000],
        [b"c"],
    ]


def test_a_topic_that_comes_later_leaves_nothing_behind() -> None:
    parts = [pa.record_batch({"value": ["1"], "topic": [topic]}) for topic in ("orders", "refunds", "orders")]
    found = rows_of(encoded(Encoder(None, batch_bytes=4096), *parts))
    assert [(topic, record.value) for topic, _, record in found] == [
        ("orders", b"1"),
        ("orders", b"1"),
        ("refunds", b"1"),
    ]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"topic": [None]}, "no topic"),
        ({"partition": pa.array([3], pa.int32())}, "for partition 3 of orders, which has 3"),
        ({"partition": pa.array([-1], pa.int32())}, "for partition -1"),
        ({"headers": pa.array([[{"key": None, "value": b"x"}]], HEADERS)}, "header without a key"),
        ({"headers": pa.array([[None]], HEADERS)}, "header that is null"),
    ],
)
def test_what_is_refused(columns: dict[str, Any], words: str) -> None:
    good = {"value": ["fine", "wrong"], "topic": ["orders", "orders"]}
    for name, wrong in columns.items():
        array = wrong if isinstance(wrong, pa.Array) else pa.array(wrong, pa.string())
        before = pa.array(["orders"]) if name == "topic" else pa.nulls(1, array.type)
        good[name] = pa.concat_arrays([before, array])
    encoder = Encoder(None, batch_bytes=4096)
    batch = pa.record_batch(good)
    list(encoder.tell(PARTITIONS))
    with pytest.raises(BadRow, match=words):
        list(encoder.add(batch, NOW_MS))
    # The rows before it are whole.
    assert [record.value for _, _, record in rows_of(encoded(encoder))] == [b"fine"]


def test_memory_is_bounded_however_many_partitions_there_are() -> None:
    encoder = Encoder("orders", batch_bytes=1 << 19)
    list(encoder.tell({"orders": 4000}))
    keys = [b"%d" % number for number in range(6_000)]
    batch = pa.record_batch({"key": keys, "value": [b"v" * 1000] * len(keys)})
    filled = [*encoder.add(batch, NOW_MS), *encoder.flush()]
    assert max(len(each.batch) for each in filled) <= (32 << 20) // 4000
    assert sum(read_header(each.batch).record_count for each in filled) == len(keys)


def test_no_object_and_no_call_per_row() -> None:
    def table(count: int) -> pa.RecordBatch:
        row = {"key": b"k", "value": b"v", "topic": "orders", "headers": [{"key": "h", "value": b"1"}]}
        return pa.RecordBatch.from_pylist([row] * count, schema=SCHEMA)

    one, many = table(1), table(20_000)

    def run(batch: pa.RecordBatch) -> list[Filled]:
        encoder = Encoder(None, batch_bytes=1 << 24)
        list(encoder.tell({"orders": 1}))
        return [*encoder.add(batch, NOW_MS), *encoder.flush()]

    for batch in (one, many):
        run(batch)
    assert abs(calls_of(lambda: run(many)) - calls_of(lambda: run(one))) < 50
    assert abs(blocks_of(lambda: run(many)) - blocks_of(lambda: run(one))) < 100
    compiled: Any = native_rows.append
    assert len(compiled.signatures) == 1
