"""Where a consumer may begin: the earliest record, the end, a moment, an offset."""

import pytest
from tests.clients.adapters.base import Consumer, ConsumerOptions, KafkaFault, Partition, ProducerOptions, Record
from tests.clients.story import Story, read, read_partition, wait_stored
from tests.clients.waiting import wait_until, wall_ms


def position_known(consumer: Consumer, partition: Partition) -> bool:
    """Polls, so that the client can find out where to begin."""
    assert consumer.poll(0.1) == []
    return consumer.position(partition) >= 0


def test_earliest_reads_everything(story: Story) -> None:
    topic = story.topic()
    values = [b"%d" % n for n in range(50)]
    story.send_all(story.producer(), topic, values)
    records = read_partition(story.consumer(), Partition(topic, 0), 50)
    assert [record.value for record in records] == values
    assert {(record.topic, record.partition) for record in records} == {(topic, 0)}


def test_latest_reads_only_what_comes_after(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    producer = story.producer()
    story.send_all(producer, topic, [b"old"] * 10)
    consumer = story.consumer(ConsumerOptions(reset="latest"))
    consumer.assign(where)
    assert consumer.end(where) == 10
    if story.client.name == "confluent":
        # librdkafka knows no position before the first record: send until one arrives.
        records: list[Record] = []
        while not records:
            story.send_all(producer, topic, [b"new"])
            records = consumer.poll(0.2)
    else:
        wait_until(lambda: position_known(consumer, where), "the consumer is at the end")
        story.send_all(producer, topic, [b"new"])
        records = read(consumer, 1)
    assert {record.value for record in records} == {b"new"}
    assert records[0].offset >= 10


def test_a_timestamp_finds_the_first_record_at_or_after_it_inside_a_batch(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    base = wall_ms() - 1_000_000
    # A long linger puts all of them into one batch: the index alone cannot find the record.
    producer = story.producer(ProducerOptions(linger_ms=200))
    wait_stored([producer.send(topic, b"%d" % n, partition=0, timestamp=base + n * 10) for n in range(100)])

    consumer = story.consumer()
    consumer.assign(where)
    assert consumer.offset_at(where, base - 5) == 0
    assert consumer.offset_at(where, base) == 0
    assert consumer.offset_at(where, base + 500) == 50
    assert consumer.offset_at(where, base + 501) == 51
    assert consumer.offset_at(where, base + 990) == 99
    assert consumer.offset_at(where, base + 991) in (None, 100)

    found = consumer.offset_at(where, base + 745)
    assert found == 75
    consumer.seek(where, found)
    assert [record.value for record in read(consumer, 25)] == [b"%d" % n for n in range(75, 100)]


def test_timestamps_out_of_order_find_the_first_offset_that_is_late_enough(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    base = wall_ms() - 1_000_000
    producer = story.producer()
    for step in (0, 50, 20, 70, 10):  # one batch each
        wait_stored([producer.send(topic, b"%d" % step, partition=0, timestamp=base + step)])
    consumer = story.consumer()
    consumer.assign(where)
    assert [consumer.offset_at(where, base + step) for step in (0, 5, 20, 50, 51, 70)] == [0, 1, 1, 1, 3, 3]


def test_a_seek_moves_back_and_forth(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    producer = story.producer(ProducerOptions(linger_ms=100))
    story.send_all(producer, topic, [b"%d" % n for n in range(100)])
    consumer = story.consumer()
    for offset in (40, 99, 0, 7):
        consumer.seek(where, offset)
        record = read(consumer, 1)[0]
        assert (record.offset, record.value) == (offset, b"%d" % offset)


def test_an_offset_outside_the_log_is_reset_or_reported(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    story.send_all(story.producer(), topic, [b"%d" % n for n in range(5)])

    resetting = story.consumer(ConsumerOptions(reset="earliest"))
    resetting.seek(where, 1000)
    assert read(resetting, 1)[0].offset == 0

    strict = story.consumer(ConsumerOptions(reset="none", group=story.unique("group")))
    strict.seek(where, 1000)
    with pytest.raises(KafkaFault) as caught:
        read(strict, 1)
    # OFFSET_OUT_OF_RANGE, or librdkafka's own word for it
    assert caught.value.code in (1, -140)


def test_beginning_and_end_follow_deleted_records(story: Story) -> None:
    topic = story.topic()
    where = Partition(topic, 0)
    story.send_all(story.producer(), topic, [b"%d" % n for n in range(20)])
    consumer = story.consumer()
    consumer.assign(where)
    assert (consumer.beginning(where), consumer.end(where)) == (0, 20)
    assert story.admin.delete_records({where: 12}) == {where: 12}
    wait_until(lambda: consumer.beginning(where) == 12, "the beginning has moved")
    fresh = story.consumer()
    assert [record.offset for record in read_partition(fresh, where, 8)] == list(range(12, 20))


def test_many_partitions_are_read_together(story: Story) -> None:
    topic = story.topic(partitions=6)
    producer = story.producer()
    wait_stored([producer.send(topic, b"%d" % n, partition=n % 6) for n in range(120)])
    consumer = story.consumer()
    consumer.assign(*(Partition(topic, number) for number in range(6)))
    records = read(consumer, 120)
    assert sorted(int(record.value or b"") for record in records) == list(range(120))
    for number in range(6):
        offsets = [record.offset for record in records if record.partition == number]
        assert offsets == list(range(20))


def test_large_batches_pass_a_small_fetch(story: Story) -> None:
    topic = story.topic(config={"max.message.bytes": "4000000"})
    producer = story.producer()
    values = [bytes([n]) * 300_000 for n in range(12)]
    story.send_all(producer, topic, values)
    records = read_partition(story.consumer(), Partition(topic, 0), len(values))
    assert [record.value for record in records] == values
