"""A small application: orders are placed on a topic, and a group of consumers adds them up for each customer."""

from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition


class NotStored(Exception):
    """The order may be lost: the customer must try again."""


class Shop:
    """Places orders. A placed order is on at least `min.insync.replicas` brokers."""

    def __init__(self, bootstrap: str, topic: str, *, timeout_s: float = 30.0) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": int(timeout_s * 1000),
            }
        )

    def place(self, customer: str, order_id: str, amount: int) -> None:
        """Returns when the order is safe, and raises NotStored when it may not be."""
        answers: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            answers.append(error)

        self._producer.produce(self._topic, f"{order_id}={amount}", customer, on_delivery=delivered)
        self._producer.flush()
        (error,) = answers
        if error is not None:
            raise NotStored(error.str())


class Totals:
    """A member of a group of consumers. It forgets the totals of a partition that moves to another member.

    The new owner reads the partition from its start. An order that it reads twice counts once.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._orders: dict[int, dict[str, tuple[str, int]]] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    @property
    def partitions(self) -> set[int]:
        return set(self._orders)

    @property
    def totals(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for orders in self._orders.values():
            for customer, amount in orders.values():
                found[customer] += amount
        return dict(found)

    def work(self, timeout_s: float) -> None:
        """Reads one order, and waits for it at most `timeout_s`."""
        message = self._consumer.poll(timeout_s)
        if message is None or message.error() is not None:
            return
        partition, customer, order = message.partition(), message.key(), message.value()
        assert partition is not None and customer is not None and order is not None
        order_id, _, amount = order.decode().partition("=")
        self._orders[partition][order_id] = (customer.decode(), int(amount))

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = 0
            self._orders[each.partition] = {}
        consumer.assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self._orders[each.partition]
