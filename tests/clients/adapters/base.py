"""What a story needs of a Kafka client, in words that all clients share."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Partition(NamedTuple):
    topic: str
    number: int


class Stored(NamedTuple):
    """Where the broker says that it put a record."""

    partition: int
    offset: int


class Committed(NamedTuple):
    offset: int
    metadata: str = ""


Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    state: str
    members: int
    assigned: frozenset[Partition]


class KafkaFault(Exception):
    """An error the broker (or the client for it) reported, by Kafka's number."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Unsupported(Exception):
    """The story asked a client for what it does not have: a mistake in the story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    group: str | None = None
    reset: str = "earliest"
    instance_id: str | None = None
    assignor: str = "range"
    session_timeout_ms: int = 6000
    heartbeat_ms: int = 300
    on_assigned: Callable[[frozenset[Partition]], None] | None = None
    on_revoked: Callable[[frozenset[Partition]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    acks: str = "all"
    codec: str = "none"
    idempotent: bool = False
    linger_ms: int = 5
    retry_seconds: int = 60


class Producer(Protocol):
    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> "Future[Stored]": ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Consumer(Protocol):
    def assign(self, *partitions: Partition) -> None: ...

    def subscribe(self, *topics: str) -> None: ...

    def subscribe_pattern(self, pattern: str) -> None: ...

    def poll(self, seconds: float) -> list[Record]: ...

    def assignment(self) -> frozenset[Partition]: ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    def position(self, partition: Partition) -> int: ...

    def offset_at(self, partition: Partition, timestamp: int) -> int | None: ...

    def beginning(self, partition: Partition) -> int: ...

    def end(self, partition: Partition) -> int: ...

    def commit(self, offsets: Mapping[Partition, Committed]) -> None: ...

    def committed(self, partition: Partition) -> int | None: ...

    def close(self) -> None: ...


class Admin(Protocol):
    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topics(self) -> frozenset[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def create_partitions(self, topic: str, total: int) -> None: ...

    def topic_config(self, topic: str) -> dict[str, str | None]: ...

    def broker_config(self, broker: int) -> dict[str, str | None]: ...

    def alter_topic_config(self, topic: str, config: Mapping[str, str]) -> None: ...

    def brokers(self) -> frozenset[int]: ...

    def groups(self) -> frozenset[str]: ...

    def describe_group(self, group: str) -> GroupInfo: ...

    def delete_group(self, group: str) -> None: ...

    def group_offsets(self, group: str) -> dict[Partition, Committed]: ...

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]: ...

    def close(self) -> None: ...


class Client(Protocol):
    """One client library: how to make its parts, and what it can do."""

    name: str
    assignors: frozenset[str]
    can_alter_configs: bool
    can_delete_groups: bool

    def producer(self, bootstrap: str, options: ProducerOptions) -> Producer: ...

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> Consumer: ...

    def admin(self, bootstrap: str) -> Admin: ...


@dataclass(slots=True)
class Opened:
    """What a story has opened, to be closed in reverse whatever happens."""

    closers: list[Callable[[], None]] = field(default_factory=list)

    def add(self, closer: Callable[[], None]) -> None:
        self.closers.append(closer)

    def close_all(self) -> None:
        while self.closers:
            self.closers.pop()()
