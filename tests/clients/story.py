"""What every story does: open parts of one client, send, read until enough has come, close everything."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from tests.clients.adapters.base import (
    Admin,
    Client,
    Consumer,
    ConsumerOptions,
    Opened,
    Partition,
    Producer,
    ProducerOptions,
    Record,
    Stored,
)
from tests.clients.waiting import PATIENCE_SECONDS, Deadline, wait_until

POLL_SECONDS = 0.2


class Story:
    """One client library against one cluster, for the length of one test."""

    def __init__(self, client: Client, bootstrap: str, unique: Callable[[str], str]) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.unique = unique
        self._opened = Opened()
        self._admin: Admin | None = None

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = self.client.admin(self.bootstrap)
            self._opened.add(self._admin.close)
        return self._admin

    def producer(self, options: ProducerOptions | None = None, bootstrap: str | None = None) -> Producer:
        producer = self.client.producer(bootstrap or self.bootstrap, options or ProducerOptions())
        self._opened.add(producer.close)
        return producer

    def consumer(self, options: ConsumerOptions | None = None) -> Consumer:
        consumer = self.client.consumer(self.bootstrap, options or ConsumerOptions())
        self._opened.add(consumer.close)
        return consumer

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None, name: str | None = None) -> str:
        """A new topic that clients can see."""
        topic = name or self.unique("topic")
        self.admin.create_topic(topic, partitions, config=config)
        wait_until(lambda: topic in self.admin.topics(), f"{topic} is listed")
        return topic

    def send_all(self, producer: Producer, topic: str, values: Sequence[bytes], partition: int = 0) -> list[Stored]:
        """Sends and waits for every acknowledgement, in order."""
        return wait_stored([producer.send(topic, value, partition=partition) for value in values])

    def close(self) -> None:
        self._opened.close_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def wait_stored(futures: Sequence["Future[Stored]"]) -> list[Stored]:
    """Where each record is; raises the first error the client gave up with."""
    deadline = Deadline(PATIENCE_SECONDS)
    return [future.result(deadline.left) for future in futures]


def read(consumer: Consumer, count: int, seconds: float = PATIENCE_SECONDS) -> list[Record]:
    """Polls until `count` records have come; says what came when there are fewer."""
    deadline = Deadline(seconds)
    records: list[Record] = []
    while len(records) < count:
        records += consumer.poll(POLL_SECONDS)
        assert not deadline.passed or len(records) >= count, (
            f"{len(records)} of {count} records after {seconds:g} s: {[r.offset for r in records][-20:]}"
        )
    return records


def read_partition(consumer: Consumer, partition: Partition, count: int) -> list[Record]:
    consumer.assign(partition)
    return read(consumer, count)
