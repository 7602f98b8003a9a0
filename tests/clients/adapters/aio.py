"""aiokafka: the protocol on asyncio. Each adapter runs its client on an event loop in a thread of its own."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import aiokafka
import aiokafka.errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
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
    Unsupported,
)
from tests.clients.loop_thread import CALL_SECONDS, LoopThread

T = TypeVar("T")

ASSIGNORS: dict[str, Any] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def fault(error: Any) -> KafkaFault:
    return KafkaFault(int(getattr(error, "errno", -1)), repr(error))


def partitions_of(entries: Any) -> frozenset[Partition]:
    return frozenset(Partition(tp.topic, tp.partition) for tp in entries or ())


def tp(partition: Partition) -> Any:
    return aiokafka.TopicPartition(*partition)


class AioThread(LoopThread):
    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = CALL_SECONDS) -> T:
        try:
            return super().run(coroutine, seconds)
        except aiokafka.errors.KafkaError as error:
            raise fault(error) from error


class AioProducer:
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        self._thread = AioThread()
        # Concurrent calls of aiokafka's `send` may pass each other while they wait for room: one at a time.
        self._turn = asyncio.Lock()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks=options.acks if options.acks == "all" else int(options.acks),
                compression_type=None if options.codec == "none" else options.codec,
                enable_idempotence=options.idempotent,
                linger_ms=options.linger_ms,
                # aiokafka gives a batch up after this long, retries included.
                request_timeout_ms=options.retry_seconds * 1000,
            )
            await producer.start()
            return producer

        self._producer = self._thread.run(start())

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
        async def deliver() -> Stored:
            try:
                async with self._turn:
                    delivery = await self._producer.send(
                        topic,
                        value,
                        key=key,
                        partition=partition,
                        timestamp_ms=timestamp,
                        headers=list(headers),
                    )
                metadata = await delivery
            except aiokafka.errors.KafkaError as error:
                raise fault(error) from error
            # With acks=0 nobody knows the offset.
            return Stored(metadata.partition, metadata.offset) if metadata else Stored(-1, -1)

        return self._thread.submit(deliver())

    def flush(self) -> None:
        self._thread.run(self._producer.flush(), CALL_SECONDS * 3)

    def close(self) -> None:
        self._thread.run(self._producer.stop())
        self._thread.close()


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options

    async def on_partitions_assigned(self, assigned: Any) -> None:
        if self._options.on_assigned is not None:
            self._options.on_assigned(partitions_of(assigned))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._options.on_revoked is not None:
            self._options.on_revoked(partitions_of(revoked))


class AioConsumer:
    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self._thread = AioThread()
        self._listener = Listener(options)

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
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
                request_timeout_ms=int(CALL_SECONDS * 1000),
            )
            await consumer.start()
            return consumer

        self._consumer = self._thread.run(start())

    def assign(self, *partitions: Partition) -> None:
        self._thread.call(self._consumer.assign, [tp(each) for each in partitions])

    def subscribe(self, *topics: str) -> None:
        self._thread.call(lambda: self._consumer.subscribe(topics=list(topics), listener=self._listener))

    def subscribe_pattern(self, pattern: str) -> None:
        self._thread.call(lambda: self._consumer.subscribe(pattern=f"^{pattern}$", listener=self._listener))

    def poll(self, seconds: float) -> list[Record]:
        polled = self._thread.run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
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
        return partitions_of(self._thread.call(self._consumer.assignment))

    def seek(self, partition: Partition, offset: int) -> None:
        self.assign(partition)
        self._thread.call(self._consumer.seek, tp(partition), offset)

    def position(self, partition: Partition) -> int:
        return int(self._thread.run(self._consumer.position(tp(partition))))

    def offset_at(self, partition: Partition, timestamp: int) -> int | None:
        found = self._thread.run(self._consumer.offsets_for_times({tp(partition): timestamp}))[tp(partition)]
        return None if found is None else int(found.offset)

    def beginning(self, partition: Partition) -> int:
        return int(self._thread.run(self._consumer.beginning_offsets([tp(partition)]))[tp(partition)])

    def end(self, partition: Partition) -> int:
        return int(self._thread.run(self._consumer.end_offsets([tp(partition)]))[tp(partition)])

    def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        entries = {tp(p): (c.offset, c.metadata) for p, c in offsets.items()}
        self._thread.run(self._consumer.commit(entries))

    def committed(self, partition: Partition) -> int | None:
        found = self._thread.run(self._consumer.committed(tp(partition)))
        return None if found is None else int(found)

    def close(self) -> None:
        self._thread.run(self._consumer.stop())
        self._thread.close()


class AioAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._thread = AioThread()

        async def start() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            return admin

        self._admin = self._thread.run(start())

    def _checked(self, errors: Any) -> None:
        for name, code, *message in errors:
            if code:
                raise KafkaFault(code, f"{name}: {message}")

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, replication, topic_configs=dict(config or {}))
        response = self._thread.run(self._admin.create_topics([topic]))
        self._checked(response.topic_errors)

    def delete_topic(self, name: str) -> None:
        response = self._thread.run(self._admin.delete_topics([name]))
        self._checked(response.topic_error_codes)

    def topics(self) -> frozenset[str]:
        return frozenset(self._thread.run(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        (found,) = self._thread.run(self._admin.describe_topics([topic]))
        return len(found["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._thread.run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def _config(self, kind: Any, name: str) -> dict[str, str | None]:
        (response,) = self._thread.run(self._admin.describe_configs([ConfigResource(kind, name)]))
        ((code, message, _, _, entries),) = response.resources
        if code:
            raise KafkaFault(code, str(message))
        return {entry[0]: entry[1] for entry in entries}

    def topic_config(self, topic: str) -> dict[str, str | None]:
        return self._config(ConfigResourceType.TOPIC, topic)

    def broker_config(self, broker: int) -> dict[str, str | None]:
        return self._config(ConfigResourceType.BROKER, str(broker))

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        raise Unsupported("aiokafka alters configs only by AlterConfigs (key 33), not incrementally")

    def brokers(self) -> frozenset[int]:
        found = self._thread.run(self._admin.describe_cluster())
        return frozenset(broker["node_id"] for broker in found["brokers"])

    def groups(self) -> frozenset[str]:
        return frozenset(group[0] for group in self._thread.run(self._admin.list_consumer_groups()))

    def describe_group(self, group: str) -> GroupInfo:
        (response,) = self._thread.run(self._admin.describe_consumer_groups([group]))
        ((code, _, state, _, _, members, *_),) = response.groups
        if code:
            raise KafkaFault(code, group)
        assigned: set[Partition] = set()
        for member in members:
            if member[-1]:
                decoded: Any = ConsumerProtocolMemberAssignment.decode(member[-1])
                assigned |= {Partition(topic, n) for topic, numbers in decoded.assignment for n in numbers}
        return GroupInfo(state=state, members=len(members), assigned=frozenset(assigned))

    def delete_group(self, group: str) -> None:
        raise Unsupported("aiokafka has no DeleteGroups")

    def group_offsets(self, group: str) -> dict[Partition, Committed]:
        found = self._thread.run(self._admin.list_consumer_group_offsets(group))
        return {Partition(*key): Committed(value.offset, value.metadata) for key, value in found.items()}

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        wanted = {tp(p): RecordsToDelete(before_offset=offset) for p, offset in before.items()}
        found = self._thread.run(self._admin.delete_records(wanted))
        return {Partition(*key): low for key, low in found.items()}

    def close(self) -> None:
        self._thread.run(self._admin.close())
        self._thread.close()


class AioKafka:
    name = "aiokafka"
    assignors = frozenset(ASSIGNORS)
    can_alter_configs = False
    can_delete_groups = False

    def producer(self, bootstrap: str, options: ProducerOptions) -> AioProducer:
        return AioProducer(bootstrap, options)

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> AioConsumer:
        return AioConsumer(bootstrap, options)

    def admin(self, bootstrap: str) -> AioAdmin:
        return AioAdmin(bootstrap)
