"""The topics of the cluster for the group coordinator, and its offsets partitions as batches to replay."""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.broker.appends import wait_until_committed
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import iter_headers

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

MIN_READ: Final = 64 * 1024
DEFAULT_TOPIC_CONFIG: Final = TopicConfig()
# Nobody's request: it may take as long as replication does.
LOAD_TIMEOUT_MS: Final = 24 * 3_600_000


class BrokerTopics:
    """`group_offsets.TopicDirectory` over the metadata this broker has replayed."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def topic_id(self, name: str) -> UUID | None:
        topic = self._image().topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._image().topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def has_partition(self, name: str, partition: int) -> bool:
        return self._image().partition(TopicPartition(name, partition)) is not None


def max_message_bytes(broker: "Broker", topic_partition: TopicPartition) -> int:
    """What its topic takes in one batch; the default of topics where this broker has no replica of it any more."""
    partition = broker.replicas.get(topic_partition)
    return DEFAULT_TOPIC_CONFIG.max_message_bytes if partition is None else partition.log.config.max_message_bytes


async def read_batches(broker: "Broker", topic_partition: TopicPartition) -> AsyncIterator[bytes]:
    """Whole batches from the log's start to its end, while this broker leads it; over when all of that is committed.

    What an earlier leader wrote last may not be: whoever acted on it before it is would tell of what can still be lost.
    """
    partition = broker.replicas.get(topic_partition)
    if partition is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not on this broker")
    partition.require_leader()
    log = partition.log
    offset, end = log.log_start_offset, log.log_end_offset
    size = max(MIN_READ, broker.config.offsets_load_buffer_size)
    while offset < end:
        # Retention and compaction go on meanwhile.
        found = partition.find_cold(max(offset, log.log_start_offset), size, end)
        if not found.size:
            break
        batches = await partition.read_cold_slice(found, broker.offload)
        yield batches
        offset = _next_offset(batches)
    await wait_until_committed(broker, partition, end, LOAD_TIMEOUT_MS)


def _next_offset(batches: bytes) -> int:
    offset = -1
    for _, header in iter_headers(memoryview(batches)):
        offset = header.next_offset
    if offset < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a read returned no batch")
    return offset
