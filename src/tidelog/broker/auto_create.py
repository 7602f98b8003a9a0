"""Topics that come into being because somebody needs them: auto-creation and the offsets topic."""

from tidelog.broker.broker import Broker
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC, REPLICATION_EVENTS_TOPIC, is_internal, why_illegal
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CREATE_TIMEOUT_MS = 30_000
# Per replica. `tidelog up` records by default, with three replicas on one disk.
EVENTS_BYTES = 64 * 1024 * 1024
EVENTS_SEGMENT_BYTES = 8 * 1024 * 1024


def may_auto_create(broker: Broker, name: str) -> bool:
    """Whether a topic that is asked for and missing should be made."""
    if name in broker.image.topics_by_name or why_illegal(name):
        return False
    if is_internal(name):
        return name == GROUP_OFFSETS_TOPIC
    return broker.config.auto_create_topics_enable


async def auto_create(broker: Broker, names: list[str]) -> dict[str, ErrorCode]:
    """Makes the topics with the cluster's defaults; names the refused ones. One made meanwhile is a success."""
    wanted = [_topic(broker, name) for name in names]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=CREATE_TIMEOUT_MS)
    response: CreateTopicsResponse = await broker.controller.send(request, timeout_ms=CREATE_TIMEOUT_MS)
    refused: dict[str, ErrorCode] = {}
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            refused[result.name] = code = ErrorCode(result.error_code)
            # Clients only see a code and ask again: whoever runs the node has to learn why.
            key = "offsets.topic" if result.name == GROUP_OFFSETS_TOPIC else "default"
            hint = f"; see {key}.replication.factor" if code == ErrorCode.INVALID_REPLICATION_FACTOR else ""
            broker.not_created.warning(
                f"topic {result.name} cannot be created: {result.error_message or code.name}{hint}"
            )
    return refused


def _topic(broker: Broker, name: str) -> CreatableTopic:
    if name == GROUP_OFFSETS_TOPIC:
        return _offsets_topic(broker)
    if name == REPLICATION_EVENTS_TOPIC:
        return _events_topic(broker)
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


def _events_topic(broker: Broker) -> CreatableTopic:
    """One partition, so that events stay in order; as many copies as consumer offsets have."""
    config = broker.config
    return CreatableTopic(
        name=REPLICATION_EVENTS_TOPIC,
        num_partitions=1,
        replication_factor=config.offsets_topic_replication_factor,
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value="delete"),
            CreatableTopicConfig(name="retention.ms", value=str(config.tidelog_replication_events_retention_ms)),
            CreatableTopicConfig(name="retention.bytes", value=str(EVENTS_BYTES)),
            CreatableTopicConfig(name="segment.bytes", value=str(EVENTS_SEGMENT_BYTES)),
            CreatableTopicConfig(name="min.insync.replicas", value="1"),
        ],
    )


def _offsets_topic(broker: Broker) -> CreatableTopic:
    config = broker.config
    return CreatableTopic(
        name=GROUP_OFFSETS_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="compression.type", value="producer"),
            CreatableTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
        ],
    )


async def ensure_offsets_topic(broker: Broker) -> int:
    """The number of partitions of `__consumer_offsets`, made first if need be."""
    topic = broker.image.topics_by_name.get(GROUP_OFFSETS_TOPIC)
    if topic is None:
        refused = await auto_create(broker, [GROUP_OFFSETS_TOPIC])
        topic = broker.image.topics_by_name.get(GROUP_OFFSETS_TOPIC)
        if topic is None:
            code = refused.get(GROUP_OFFSETS_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC} cannot be created: {code.name}")
    return len(topic.partitions)
