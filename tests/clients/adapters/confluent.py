"""confluent-kafka: librdkafka."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import confluent_kafka as ck
import confluent_kafka.admin
from tests.clients.adapters.base import (
    Committed,
    ConsumerOptions,
    GroupInfo,
    Header,
    KafkaFault,
    Partition,
    ProducerOptions,
    Record,
    Stored,
)

ck_admin: Any = confluent_kafka.admin  # its stubs do not export what its documentation does
CALL_SECONDS = 20.0
POLL_SECONDS = 0.05

# librdkafka tells of these and goes on by itself: the coordinator is loading, unknown yet, or has moved.
PASSING = frozenset({14, 15, 16})


def fault(error: Any) -> KafkaFault:
    return KafkaFault(error.code(), str(error))


def partitions_of(entries: Sequence[Any]) -> frozenset[Partition]:
    return frozenset(Partition(entry.topic, entry.partition) for entry in entries)


class ConfluentProducer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        self._producer: Any = ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": options.acks,
                "compression.type": options.codec,
                "enable.idempotence": options.idempotent,
                "linger.ms": options.linger_ms,
                "message.timeout.ms": options.retry_seconds * 1000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._deliver, daemon=True)
        self._poller.start()

    def _deliver(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(POLL_SECONDS)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> "Future[Stored]":
        future: Future[Stored] = Future()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                future.set_exception(fault(error))
            else:
                future.set_result(Stored(message.partition(), message.offset()))

        arguments: dict[str, Any] = {"key": key, "headers": list(headers), "on_delivery": delivered}
        if partition is not None:
            arguments["partition"] = partition
        if timestamp is not None:
            arguments["timestamp"] = timestamp
        self._producer.produce(topic, value, **arguments)
        return future

    def flush(self) -> None:
        if self._producer.flush(CALL_SECONDS * 3) != 0:
            raise TimeoutError("records left in the producer's queue")

    def close(self) -> None:
        self._closing.set()
        self._poller.join()
        self._producer.flush(CALL_SECONDS)


class ConfluentConsumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": options.group or "unused",
            "auto.offset.reset": {"none": "error"}.get(options.reset, options.reset),
            "enable.auto.commit": False,
            "partition.assignment.strategy": options.assignor,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": options.heartbeat_ms,
            "topic.metadata.refresh.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
        if options.instance_id is not None:
            config["group.instance.id"] = options.instance_id
        self._options = options
        self._consumer: Any = ck.Consumer(config)

    def assign(self, *partitions: Partition) -> None:
        # Without a group there is no committed offset to ask for, and librdkafka would ask.
        if self._options.group is None:
            start = {"earliest": ck.OFFSET_BEGINNING, "latest": ck.OFFSET_END}[self._options.reset]
        else:
            start = ck.OFFSET_INVALID
        self._consumer.assign([ck.TopicPartition(*each, start) for each in partitions])

    def _subscribe(self, topics: list[str]) -> None:
        def assigned(_: Any, entries: Sequence[Any]) -> None:
            if self._options.on_assigned is not None:
                self._options.on_assigned(partitions_of(entries))

        def revoked(_: Any, entries: Sequence[Any]) -> None:
            if self._options.on_revoked is not None:
                self._options.on_revoked(partitions_of(entries))

        self._consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked)

    def subscribe(self, *topics: str) -> None:
        self._subscribe(list(topics))

    def subscribe_pattern(self, pattern: str) -> None:
        self._subscribe([f"^{pattern}$"])

    def poll(self, seconds: float) -> list[Record]:
        messages = [m for m in [self._consumer.poll(seconds)] if m is not None]
        if messages:
            messages += self._consumer.consume(500, 0)
        for message in messages:
            if message.error() is not None and message.error().code() not in PASSING:
                raise fault(message.error())
        return [
            Record(
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
                timestamp=message.timestamp()[1],
                key=message.key(),
                value=message.value(),
                headers=tuple(message.headers() or ()),
            )
            for message in messages
            if message.error() is None
        ]

    def assignment(self) -> frozenset[Partition]:
        return partitions_of(self._consumer.assignment())

    def seek(self, partition: Partition, offset: int) -> None:
        # librdkafka seeks only a partition it is already fetching, so name the offset in the assignment.
        self._consumer.assign([ck.TopicPartition(*partition, offset)])

    def position(self, partition: Partition) -> int:
        return int(self._consumer.position([ck.TopicPartition(*partition)])[0].offset)

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        found = self._consumer.offsets_for_times([ck.TopicPartition(*partition, timestamp)], CALL_SECONDS)[0]
        if found.error is not None:
            raise fault(found.error)
        return int(found.offset) if found.offset >= 0 else None

    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(ck.TopicPartition(*partition), CALL_SECONDS)
        return int(low), int(high)

    def beginning(self, partition: Partition) -> int:
        return self._watermarks(partition)[0]

    def end(self, partition: Partition) -> int:
        return self._watermarks(partition)[1]

    def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        entries = [ck.TopicPartition(tp.topic, tp.number, c.offset, metadata=c.metadata) for tp, c in offsets.items()]
        try:
            self._consumer.commit(offsets=entries, asynchronous=False)
        except ck.KafkaException as error:
            raise fault(error.args[0]) from error

    def committed(self, partition: Partition) -> int | None:
        found = self._consumer.committed([ck.TopicPartition(*partition)], CALL_SECONDS)[0]
        return int(found.offset) if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


class ConfluentAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin: Any = ck_admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def _one(self, futures: Any) -> Any:
        future = next(iter(futures.values())) if isinstance(futures, dict) else futures
        try:
            return future.result(CALL_SECONDS)
        except ck.KafkaException as error:
            raise fault(error.args[0]) from error

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        topic = ck_admin.NewTopic(name, partitions, replication, config=dict(config or {}))
        self._one(self._admin.create_topics([topic]))

    def delete_topic(self, name: str) -> None:
        self._one(self._admin.delete_topics([name]))

    def topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=CALL_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        described = self._one(self._admin.describe_topics(ck.TopicCollection([topic])))
        return len(described.partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        self._one(self._admin.create_partitions([ck_admin.NewPartitions(topic, total)]))

    def _config(self, kind: Any, name: str) -> dict[str, str | None]:
        entries = self._one(self._admin.describe_configs([ck_admin.ConfigResource(kind, name)]))
        return {entry.name: entry.value for entry in entries.values()}

    def topic_config(self, topic: str) -> dict[str, str | None]:
        return self._config(ck_admin.ConfigResource.Type.TOPIC, topic)

    def broker_config(self, broker: int) -> dict[str, str | None]:
        return self._config(ck_admin.ConfigResource.Type.BROKER, str(broker))

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        operation = ck_admin.AlterConfigOpType.SET
        entries = [ck_admin.ConfigEntry(key, value, incremental_operation=operation) for key, value in config.items()]
        resource = ck_admin.ConfigResource(ck_admin.ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._one(self._admin.incremental_alter_configs([resource]))

    def brokers(self) -> frozenset[int]:
        return frozenset(node.id for node in self._one(self._admin.describe_cluster()).nodes)

    def groups(self) -> frozenset[str]:
        listed = self._one(self._admin.list_consumer_groups())
        assert not listed.errors, listed.errors
        return frozenset(group.group_id for group in listed.valid)

    def describe_group(self, group: str) -> GroupInfo:
        found = self._one(self._admin.describe_consumer_groups([group]))
        assigned = [tp for member in found.members for tp in member.assignment.topic_partitions]
        state = "".join(part.capitalize() for part in found.state.name.split("_"))
        return GroupInfo(state=state, members=len(found.members), assigned=partitions_of(assigned))

    def delete_group(self, group: str) -> None:
        self._one(self._admin.delete_consumer_groups([group]))

    def group_offsets(self, group: str) -> dict[Partition, Committed]:
        asked = [ck.ConsumerGroupTopicPartitions(group)]
        found = self._one(self._admin.list_consumer_group_offsets(asked))
        return {
            Partition(tp.topic, tp.partition): Committed(tp.offset, tp.metadata or "") for tp in found.topic_partitions
        }

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        entries = [ck.TopicPartition(tp.topic, tp.number, offset) for tp, offset in before.items()]
        futures = self._admin.delete_records(entries)
        return {Partition(tp.topic, tp.partition): self._one(future).low_watermark for tp, future in futures.items()}

    def close(self) -> None:
        """librdkafka ends its threads when the handle is collected."""


class Confluent:
    name = "confluent"
    assignors = frozenset({"range", "roundrobin", "cooperative-sticky"})
    can_alter_configs = True
    can_delete_groups = True

    def producer(self, bootstrap: str, options: ProducerOptions) -> ConfluentProducer:
        return ConfluentProducer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConfluentConsumer:
        return ConfluentConsumer(bootstrap, options)

    def admin(self, bootstrap: str) -> ConfluentAdmin:
        return ConfluentAdmin(bootstrap)
