"""Producing through each client: every acks, every codec, and what a record may carry."""

import pytest
from tests.clients.adapters.base import Partition, ProducerOptions
from tests.clients.story import Story, read_partition, wait_stored
from tests.clients.waiting import PATIENCE_SECONDS, wall_ms

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_in_order_with_dense_offsets(story: Story, acks: str, codec: str) -> None:
    topic = story.topic()
    values = [b"%04d " % n + b"tide" * 25 for n in range(300)]

    producer = story.producer(ProducerOptions(acks=acks, codec=codec))
    stored = story.send_all(producer, topic, values)

    records = read_partition(story.consumer(), Partition(topic, 0), len(values))
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(len(values)))
    if acks != "0":  # nobody tells an acks=0 producer its offsets
        assert [each.offset for each in stored] == list(range(len(values)))


def test_headers_null_keys_and_null_values_come_back_as_sent(story: Story) -> None:
    topic = story.topic()
    producer = story.producer()
    headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""))
    sent = [
        producer.send(topic, b"plain", partition=0),
        producer.send(topic, b"keyed", key=b"k", partition=0, headers=headers),
        producer.send(topic, None, key=b"tombstone", partition=0),
        producer.send(topic, b"", key=b"", partition=0),
    ]
    assert [stored.offset for stored in wait_stored(sent)] == [0, 1, 2, 3]

    records = read_partition(story.consumer(), Partition(topic, 0), 4)
    assert [(record.key, record.value) for record in records] == [
        (None, b"plain"),
        (b"k", b"keyed"),
        (b"tombstone", None),
        (b"", b""),
    ]
    assert [record.headers for record in records] == [(), headers, (), ()]


def test_create_time_is_the_producers_and_append_time_the_brokers(story: Story) -> None:
    mine = story.topic()
    theirs = story.topic(config={"message.timestamp.type": "LogAppendTime"})
    producer = story.producer()
    before = wall_ms()
    hour_ago = before - 3_600_000
    wait_stored(
        [
            producer.send(topic, b"x", partition=0, timestamp=hour_ago + step)
            for topic in (mine, theirs)
            for step in range(3)
        ]
    )
    after = wall_ms()

    created = read_partition(story.consumer(), Partition(mine, 0), 3)
    appended = read_partition(story.consumer(), Partition(theirs, 0), 3)
    assert [record.timestamp for record in created] == [hour_ago, hour_ago + 1, hour_ago + 2]
    assert all(before <= record.timestamp <= after for record in appended)


def test_keys_choose_partitions_that_stay(story: Story) -> None:
    topic = story.topic(partitions=4)
    producer = story.producer()
    keys = [b"key-%d" % (n % 10) for n in range(100)]
    stored = wait_stored([producer.send(topic, b"v", key=key) for key in keys])
    homes: dict[bytes, set[int]] = {}
    for key, where in zip(keys, stored, strict=True):
        homes.setdefault(key, set()).add(where.partition)
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len({partition for partitions in homes.values() for partition in partitions}) > 1


def test_a_topic_is_created_by_the_first_record_sent_to_it(story: Story) -> None:
    topic = story.unique("auto")
    producer = story.producer()
    assert story.send_all(producer, topic, [b"first"]) == [(0, 0)]
    assert topic in story.admin.topics()


def test_a_record_larger_than_the_topic_allows_is_refused(story: Story) -> None:
    topic = story.topic(config={"max.message.bytes": "1000"})
    producer = story.producer()
    error = producer.send(topic, bytes(5000), partition=0).exception(PATIENCE_SECONDS)
    assert getattr(error, "code", None) == 10, error  # MESSAGE_TOO_LARGE
    assert story.send_all(producer, topic, [bytes(10)]) == [(0, 0)]
