"""What real clients write, fetched as bytes and turned into columns, is what they read themselves."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.clients.adapters.base import Partition, ProducerOptions, Record
from tests.clients.story import Story, read_partition, wait_stored
from tests.clients.waiting import wall_ms
from tests.clients.wire_client import WireClient

from tidelog.kernel import Decoder
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.batch import iter_headers

COUNT = 300
# The last version that names topics.
FETCH_VERSION = 12
# Less than everything, so that it takes several answers.
MAX_BYTES = 8000


def answers(wire: WireClient, topic: str, decoder: Decoder) -> Iterator[bytes]:
    """One after the other, from where the decoder stands, until it is done."""
    while not decoder.done:
        partition = FetchPartition(partition=0, fetch_offset=decoder.next_offset, partition_max_bytes=MAX_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        [answered] = wire.call(request, FETCH_VERSION).responses
        [data] = answered.partitions
        assert data.error_code == 0
        yield bytes(data.records)


def rows(batches: list[pa.RecordBatch]) -> list[Record]:
    return [
        Record(
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp=micros // 1000,
            key=row["key"],
            value=row["value"],
            headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for batch in batches
        for row, micros in zip(batch.to_pylist(), batch.column("timestamp").cast(pa.int64()).to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_columns_are_what_the_client_reads(story: Story, codec: Codec) -> None:
    topic = story.topic()
    producer = story.producer(ProducerOptions(codec=codec.name.lower(), linger_ms=20))
    base = wall_ms()
    sent = [
        producer.send(
            topic,
            None if number % 7 == 1 else b"value of %d " % number * 20,
            key=None if number % 7 == 0 else b"%d" % number,
            partition=0,
            timestamp=base - number,
            headers=[("n", b"%d" % number), ("ä", b"")] if number % 2 else [],
        )
        for number in range(COUNT)
    ]
    wait_stored(sent)
    decoder = Decoder(topic, 0, 0, COUNT, headers=True, max_rows=64)
    batches: list[pa.RecordBatch] = []
    codecs = set()
    with WireClient(story.bootstrap) as wire:
        for answer in answers(wire, topic, decoder):
            codecs |= {header.codec for _, header in iter_headers(answer, partial_tail=True)}
            batches += decoder.feed(answer)
    batches += decoder.flush()
    # A batch that compression would not make smaller may come without.
    assert codec in codecs <= {codec, Codec.NONE}
    assert rows(batches) == read_partition(story.consumer(), Partition(topic, 0), COUNT)
