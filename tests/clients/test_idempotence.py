"""An idempotent producer whose connections are cut at random: no duplicate, no loss, in order."""

import threading
import zlib
from concurrent.futures import Future

import pytest
from tests.clients.adapters.base import Partition, ProducerOptions, Stored
from tests.clients.cutting_proxy import CuttingProxy
from tests.clients.story import Story, read, wait_stored
from tests.clients.waiting import Deadline
from tests.soak import rounds

PARTITIONS = 3
IN_FLIGHT = 300
SECONDS = rounds(4.0, 60.0)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 120)
def test_nothing_is_lost_doubled_or_reordered_when_connections_break(story: Story) -> None:
    topic = story.topic(partitions=PARTITIONS)
    room = threading.Semaphore(IN_FLIGHT)
    with CuttingProxy(story.bootstrap, seed=zlib.crc32(story.client.name.encode())) as proxy:
        options = ProducerOptions(idempotent=True, retry_seconds=60)
        producer = story.client.producer(proxy.bootstrap, options)
        futures: list[Future[Stored]] = []
        deadline = Deadline(SECONDS)
        while not deadline.passed or proxy.cuts < 3:
            assert room.acquire(timeout=60), "the producer no longer makes progress"
            number = len(futures)
            future = producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
            future.add_done_callback(lambda _: room.release())
            futures.append(future)
        proxy.stop_cutting()
        stored = wait_stored(futures)
        producer.close()

    consumer = story.consumer()
    consumer.assign(*(Partition(topic, number) for number in range(PARTITIONS)))
    records = read(consumer, len(futures), seconds=60)
    for partition in range(PARTITIONS):
        mine = [record for record in records if record.partition == partition]
        assert [int(record.value or b"") for record in mine] == list(range(partition, len(futures), PARTITIONS))
        assert [record.offset for record in mine] == list(range(len(mine)))
        assert [(record.partition, record.offset) for record in mine] == stored[partition::PARTITIONS]
        assert consumer.end(Partition(topic, partition)) == len(mine)
