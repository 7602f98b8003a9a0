"""Topics with everything in them that a reader has to get right, generated from a seed."""

import random
from collections.abc import Callable
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.clients.waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Of the first record; one more for each that follows.
BEGIN_MS = 1_700_000_000_000
RECORDS = 120

Header = tuple[str, str | bytes | None]


class Topics:
    """On one broker."""

    def __init__(self, bootstrap: str, unique: Callable[[str], str], *, transactions: bool) -> None:
        self.bootstrap = bootstrap
        self.has_transactions = transactions
        self._unique = unique
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def new(self, kind: str, partitions: int = 1, **config: str) -> str:
        name = self._unique(kind)
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        wait_until(lambda: name in self._admin.list_topics(timeout=10).topics, f"{name} is known")
        return name

    def grow(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        found = self._admin.list_topics
        wait_until(lambda: len(found(timeout=10).topics[name].partitions) == partitions, f"{name} has grown")

    def delete_before(self, name: str, offset: int) -> None:
        asked = TopicPartition(name, 0, offset)
        assert self._admin.delete_records([asked])[asked].result(30).low_watermark == offset

    def remove(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(30)
        wait_until(lambda: name not in self._admin.list_topics(timeout=10).topics, f"{name} is gone")

    def producer(self, **options: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **options})

    def write(self, name: str, first: int, end: int, partition: int = 0, **options: Any) -> None:
        """Records of a kind that differs from one to the next: nulls, empty ones, long ones, headers of all sorts."""
        producer = self.producer(**{"acks": "all", **options})
        send(producer, name, first, end, partition)
        assert producer.flush(60) == 0

    @cached_property
    def mixed(self) -> str:
        """A partition for each codec."""
        name = self.new("mixed", len(CODECS))
        for partition, codec in enumerate(CODECS):
            self.write(name, 0, RECORDS, partition, **{"compression.type": codec})
        return name

    @cached_property
    def appended(self) -> str:
        """With the broker's own time: a batch's, and not the records'."""
        name = self.new("appended", message_timestamp_type="LogAppendTime")
        for first in range(0, RECORDS, 40):
            self.write(name, first, first + 40, 0, **{"compression.type": "zstd"})
        return name

    @cached_property
    def deleted(self) -> str:
        """It begins at offset 50."""
        name = self.new("deleted")
        self.write(name, 0, RECORDS)
        self.delete_before(name, 50)
        return name

    @cached_property
    def compacted(self) -> str:
        """Of many values for few keys the last are left, and holes between them."""
        name = self.new(
            "compacted",
            cleanup_policy="compact",
            segment_ms="100",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
        )
        producer = self.producer(acks="all")
        for number in range(200):
            producer.produce(name, key=b"%d" % (number * 7 % 23), value=b"v%d" % number, timestamp=BEGIN_MS + number)
            if number % 20 == 19:
                assert producer.flush(60) == 0

        def compact() -> bool:
            # A segment is closed by the next record, and only closed ones are compacted.
            producer.produce(name, key=b"last", value=b"x", timestamp=BEGIN_MS + 10_000)
            assert producer.flush(60) == 0
            return len(self.offsets(name)) < 60

        wait_until(compact, f"{name} is compacted", 60)
        return name

    @cached_property
    def transacted(self) -> str:
        """Committed and aborted transactions, one after the other and beside what is in none."""
        name = self.new("transacted")
        self.write(name, 0, 10)
        producer = self.producer(**{"transactional.id": name})
        producer.init_transactions(30)
        for number in range(6):
            producer.begin_transaction()
            send(producer, name, 100 * number, 100 * number + 15, 0)
            assert producer.flush(60) == 0
            self.write(name, 1000 * number, 1000 * number + 5)
            if number % 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
        return name

    def offsets(self, name: str) -> list[int]:
        """Of the records that are there, as a consumer that is neither connector finds them."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(name, 0, 0)])
            found: list[Message] = []
            while True:
                message = consumer.poll(30)
                assert message is not None, f"nothing from {name}"
                if message.error() is not None:
                    return [each.offset() or 0 for each in found]
                found.append(message)
        finally:
            consumer.close()


def send(producer: Producer, name: str, first: int, end: int, partition: int) -> None:
    chance = random.Random(f"{first} {partition}")
    for number in range(first, end):
        headers: list[Header] = [(f"name-{n % 2}", None if n == 1 else b"%d" % number) for n in range(number % 4)]
        producer.produce(
            name,
            key=None if number % 3 == 0 else b"" if number % 7 == 0 else b"key-%d" % number,
            value=None if number % 11 == 0 else b"" if number % 13 == 0 else chance.randbytes(chance.randint(1, 400)),
            partition=partition,
            # Not in the order of offsets: every tenth is five late.
            timestamp=BEGIN_MS + number - (5 if number % 10 == 9 else 0),
            headers=headers or None,
        )
