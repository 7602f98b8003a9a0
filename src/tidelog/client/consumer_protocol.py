"""What members of a consumer group tell each other through JoinGroup and SyncGroup (protocol type ``consumer``)."""

from collections.abc import Iterable
from struct import Struct
from typing import Final, TypeVar

from tidelog.core.ids import TopicPartition
from tidelog.wire.codec import read_message, write_message
from tidelog.wire.errors import WireError
from tidelog.wire.schema import BYTES, INT32, STRING, Array, f, message, spec_of, struct

T = TypeVar("T")
PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = Struct(">h")


@struct
class TopicPartitions:
    topic: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@message(versions="0-3", flexible="none")
@struct
class ConsumerProtocolSubscription:
    topics: list[str] = f(Array(STRING))
    user_data: bytes | None = f(BYTES, nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = f(Array(TopicPartitions), "1+")
    generation_id: int = f(INT32, "2+", default=-1)
    rack_id: str | None = f(STRING, "3+", nullable="3+", default=None)


@message(versions="0-3", flexible="none")
@struct
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartitions] = f(Array(TopicPartitions))
    user_data: bytes | None = f(BYTES, nullable="0+", default=None)


def encode_subscription(topics: Iterable[str]) -> bytes:
    return _VERSION.pack(0) + write_message(ConsumerProtocolSubscription(topics=sorted(topics)), 0)


def decode_subscription(data: bytes) -> list[str]:
    return _decode(ConsumerProtocolSubscription, data).topics


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, TopicPartitions] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, TopicPartitions(topic=tp.topic)).partitions.append(tp.partition)
    return _VERSION.pack(0) + write_message(ConsumerProtocolAssignment(assigned_partitions=list(by_topic.values())), 0)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; none when the leader gave this member nothing."""
    if not data:
        return []
    assigned = _decode(ConsumerProtocolAssignment, data).assigned_partitions
    return sorted(TopicPartition(entry.topic, partition) for entry in assigned for partition in entry.partitions)


def _decode(cls: type[T], data: bytes) -> T:
    if len(data) < _VERSION.size:
        raise WireError(f"{len(data)} bytes hold no {cls.__name__}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"{cls.__name__} of version {version}")
    # A newer version only adds fields at the end, which are ignored.
    return read_message(cls, min(version, spec_of(cls).versions.high), data, position=_VERSION.size)
