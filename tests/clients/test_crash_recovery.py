"""`kill -9` in the middle of a load, again and again on the same data: nothing acknowledged is ever missing."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.clients.adapters.base import Consumer, ConsumerOptions, Partition, Producer, ProducerOptions, Record, Stored
from tests.clients.adapters.confluent import Confluent
from tests.clients.index_files import check_partition
from tests.clients.story import read
from tests.clients.targets import Target, one_node
from tests.clients.waiting import wait_until, wall_ms
from tests.soak import rounds

KILLS = rounds(3, 20)
IN_FLIGHT = 2000
ACKS_BETWEEN_KILLS = 3000
TOPIC_CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "2048"}
PADDING = b"." * 150


class Load(threading.Thread):
    """Sends numbered records as fast as they are acknowledged, until it is told to stop."""

    def __init__(self, producer: Producer, topic: str, started_ms: int) -> None:
        super().__init__(daemon=True)
        self._producer = producer
        self._topic = topic
        self._started_ms = started_ms
        self._room = threading.Semaphore(IN_FLIGHT)
        self._stopping = threading.Event()
        self.sent: list[Future[Stored]] = []
        self.acknowledged = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            if self._room.acquire(timeout=0.1):
                number = len(self.sent)
                value = b"%d" % number + PADDING
                stamp = self._started_ms + number
                future = self._producer.send(self._topic, value, partition=0, timestamp=stamp)
                future.add_done_callback(self._done)
                self.sent.append(future)

    def _done(self, future: "Future[Stored]") -> None:
        self.acknowledged += future.exception() is None
        self._room.release()

    def wait_progress(self, count: int) -> None:
        goal = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= goal, f"{count} more acknowledgements", 60)

    def finish(self) -> dict[int, Stored]:
        """Stops sending; where the broker said each acknowledged record is."""
        self._stopping.set()
        self.join()
        self._producer.flush()
        self._producer.close()
        return {number: future.result() for number, future in enumerate(self.sent) if future.exception(60) is None}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Target]:
    with one_node(tmp_path) as started:
        yield started


def number_of(record: Record) -> int:
    assert record.value is not None
    assert record.value.endswith(PADDING)
    return int(record.value[: -len(PADDING)])


def check_lookups(consumer: Consumer, where: Partition, records: list[Record]) -> None:
    """Lookups by offset and by timestamp against the records themselves."""
    step = max(1, len(records) // 40)
    for wanted in records[::step]:
        consumer.seek(where, wanted.offset)
        found = read(consumer, 1)[0]
        assert (found.offset, found.value) == (wanted.offset, wanted.value)
        first = next(record.offset for record in records if record.timestamp >= wanted.timestamp)
        assert consumer.offset_at(where, wanted.timestamp) == first
    newest = max(record.timestamp for record in records)
    assert consumer.offset_at(where, newest + 1) in (None, len(records))


@pytest.mark.soak
@pytest.mark.timeout(60 + 60 * KILLS)
def test_acknowledged_records_survive_kills_in_the_middle_of_a_load(node: Target) -> None:
    client = Confluent()
    admin = client.admin(node.bootstrap)
    topics = ("plain", "idempotent")
    for topic in topics:
        admin.create_topic(topic, config=TOPIC_CONFIG)
    started_ms = wall_ms() - 1_000_000
    loads = {}
    for topic in topics:
        options = ProducerOptions(idempotent=topic == "idempotent", retry_seconds=300)
        loads[topic] = Load(client.producer(node.bootstrap, options), topic, started_ms)
        loads[topic].start()
    for _ in range(KILLS):
        for load in loads.values():
            load.wait_progress(ACKS_BETWEEN_KILLS)
        node.kill(1)
        node.start(1)
    for load in loads.values():
        load.wait_progress(ACKS_BETWEEN_KILLS)

    for topic, load in loads.items():
        acknowledged = load.finish()
        where = Partition(topic, 0)
        consumer = client.consumer(node.bootstrap, ConsumerOptions())
        consumer.assign(where)
        end = consumer.end(where)
        records = read(consumer, end, seconds=60)
        assert [record.offset for record in records] == list(range(end)), f"{topic}: offsets are not dense"
        at = [number_of(record) for record in records]
        lost = {number: stored for number, stored in acknowledged.items() if at[stored.offset] != number}
        assert not lost, f"{topic}: acknowledged and not there: {lost}"
        if topic == "idempotent":
            assert at == list(range(len(load.sent))), "a record was doubled, lost or out of order"
        check_lookups(consumer, where, records)
        consumer.close()

    node.stop(1)  # so that what a running node keeps in memory is in its files
    for topic in topics:
        assert check_partition(node.log_dir / f"{topic}-0") > 0
