"""kafka-python: the protocol in Python, blocking."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import kafka
import kafka.errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
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

CALL_SECONDS = 20.0
CALL_MS = int(CALL_SECONDS * 1000)

ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def fault(error: Any) -> KafkaFault:
    return KafkaFault(int(getattr(error, "errno", -1)), repr(error))


def partitions_of(entries: Any) -> frozenset[Partition]:
    return frozenset(Partition(tp.topic, tp.partition) for tp in entries or ())


def tp(partition: Partition) -> Any:
    return kafka.TopicPartition(*partition)


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks=options.acks if options.acks == "all" else int(options.acks),
            compression_type=None if options.codec == "none" else options.codec,
            enable_idempotence=options.idempotent,
            linger_ms=options.linger_ms,
            delivery_timeout_ms=options.retry_seconds * 1000,
            request_timeout_ms=min(5000, options.retry_seconds * 1000),
            reconnect_backoff_max_ms=500,
        )

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
        sent = self._producer.send(
            topic, value, key=key, headers=list(headers), partition=partition, timestamp_ms=timestamp
        )
        sent.add_callback(lambda metadata: future.set_result(Stored(metadata.partition, metadata.offset)))
        sent.add_errback(lambda error: future.set_exception(fault(error)))
        return future

    def flush(self) -> None:
        self._producer.flush(timeout=CALL_SECONDS * 3)

    def close(self) -> None:
        self._producer.close(timeout=CALL_SECONDS)


class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options

    def on_partitions_assigned(self, assigned: Any) -> None:
        if self._options.on_assigned is not None:
            self._options.on_assigned(partitions_of(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        if self._options.on_revoked is not None:
            self._options.on_revoked(partitions_of(revoked))


class KafkaPythonConsumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self._listener = Listener(options)
        self._consumer: Any = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=options.group,
            group_instance_id=options.instance_id,
            auto_offset_reset=options.reset,
            enable_auto_commit=False,
            partition_assignment_strategy=(ASSIGNORS[options.assignor],),
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.heartbeat_ms,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=500,
        )

    def assign(self, *partitions: Partition) -> None:
        self._consumer.assign([tp(each) for each in partitions])

    def subscribe(self, *topics: str) -> None:
        self._consumer.subscribe(topics=list(topics), listener=self._listener)

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe(pattern=f"^{pattern}$", listener=self._listener)

    def poll(self, seconds: float) -> list[Record]:
        try:
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        except kafka.errors.KafkaError as error:
            raise fault(error) from error
        return [
            Record(
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                timestamp=message.timestamp,
                key=message.key,
                value=message.value,
                headers=tuple(message.headers),
            )
            for messages in polled.values()
            for message in messages
        ]

    def assignment(self) -> frozenset[Partition]:
        return partitions_of(self._consumer.assignment())

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.assign([tp(partition)])
        self._consumer.seek(tp(partition), offset)

    def position(self, partition: Partition) -> int:
        return int(self._consumer.position(tp(partition), timeout_ms=CALL_MS))

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        found = self._consumer.offsets_for_times({tp(partition): timestamp})[tp(partition)]
        return None if found is None else int(found.offset)

    def beginning(self, partition: Partition) -> int:
        return int(self._consumer.beginning_offsets([tp(partition)])[tp(partition)])

    def end(self, partition: Partition) -> int:
        return int(self._consumer.end_offsets([tp(partition)])[tp(partition)])

    def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        entries = {tp(p): kafka.OffsetAndMetadata(c.offset, c.metadata) for p, c in offsets.items()}
        try:
            self._consumer.commit(entries, timeout_ms=CALL_MS)
        except kafka.errors.KafkaError as error:
            raise fault(error) from error

    def committed(self, partition: Partition) -> int | None:
        found = self._consumer.committed(tp(partition), timeout_ms=CALL_MS)
        return None if found is None else int(found)

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=CALL_MS)


class KafkaPythonAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin: Any = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self._admin, name)(*args, **kwargs)
        except kafka.errors.KafkaError as error:
            raise fault(error) from error

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        wanted = {
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": dict(config or {}),
        }
        self._call("create_topics", {name: wanted})

    def delete_topic(self, name: str) -> None:
        self._call("delete_topics", [name])

    def topics(self) -> frozenset[str]:
        return frozenset(self._call("list_topics"))

    def partition_count(self, topic: str) -> int:
        (found,) = self._call("describe_topics", [topic])
        return len(found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._call("create_partitions", {topic: total})

    def _config(self, kind: Any, name: str) -> dict[str, str | None]:
        found = self._call("describe_configs", [ConfigResource(kind, name)], config_filter="all")
        return {key: entry["value"] for key, entry in found[kind.name.lower()][name].items()}

    def topic_config(self, topic: str) -> dict[str, str | None]:
        return self._config(ConfigResourceType.TOPIC, topic)

    def broker_config(self, broker: int) -> dict[str, str | None]:
        return self._config(ConfigResourceType.BROKER, str(broker))

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        outcome = self._call("alter_configs", [resource], raise_on_unknown=False)["topic"][topic]
        if outcome != "OK":
            number = re.search(r"Error (\d+)", outcome)
            raise KafkaFault(int(number.group(1)) if number else -1, outcome)

    def brokers(self) -> frozenset[int]:
        return frozenset(broker["broker_id"] for broker in self._call("describe_cluster")["brokers"])

    def groups(self) -> frozenset[str]:
        return frozenset(group["group_id"] for group in self._call("list_groups"))

    def describe_group(self, group: str) -> GroupInfo:
        found = self._call("describe_groups", [group])[group]
        assigned = {
            Partition(topic["topic"], number)
            for member in found["members"]
            if member["member_assignment"]
            for topic in member["member_assignment"]["assigned_partitions"]
            for number in topic["partitions"]
        }
        return GroupInfo(state=found["group_state"], members=len(found["members"]), assigned=frozenset(assigned))

    def delete_group(self, group: str) -> None:
        outcome = self._call("delete_groups", [group])[group]
        if outcome != "OK":
            raise fault(getattr(kafka.errors, outcome)())

    def group_offsets(self, group: str) -> dict[Partition, Committed]:
        found = self._call("list_group_offsets", [group])[group]
        return {Partition(*key): Committed(value.offset, value.metadata) for key, value in found.items()}

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        found = self._call("delete_records", {tp(p): offset for p, offset in before.items()})
        return {Partition(*key): value["low_watermark"] for key, value in found.items()}

    def close(self) -> None:
        self._admin.close()


class KafkaPython:
    name = "kafka-python"
    assignors = frozenset(ASSIGNORS)
    can_alter_configs = True
    can_delete_groups = True

    def producer(self, bootstrap: str, options: ProducerOptions) -> KafkaPythonProducer:
        return KafkaPythonProducer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> KafkaPythonConsumer:
        return KafkaPythonConsumer(bootstrap, options)

    def admin(self, bootstrap: str) -> KafkaPythonAdmin:
        return KafkaPythonAdmin(bootstrap)
