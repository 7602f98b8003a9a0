"""Metadata (3), versions 0 to 13: brokers, controller, topics; makes a missing topic when asked and allowed.

v0 says "all topics" with an empty list, later versions with null. A topic that is made on the way is answered once it
exists, so that a client need not ask again.
"""

from collections.abc import Awaitable

from tidelog.broker.auto_create import auto_create, may_auto_create
from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.broker.endpoints import endpoints_to_name
from tidelog.broker.replica_lists import offline_replicas, visible_leader
from tidelog.core.ids import NO_LEADER, ZERO_UUID
from tidelog.metadata.image import TopicImage
from tidelog.metadata.names import is_internal, why_illegal
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ALL_TOPICS_IS_NULL_SINCE = 1


def handle(
    broker: Broker, ctx: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if request.topics is not None and request.allow_auto_topic_creation:
        missing = [
            topic.name
            for topic in request.topics
            if topic.name and topic.topic_id == ZERO_UUID and may_auto_create(broker, topic.name)
        ]
        if missing:
            return _create_and_answer(broker, ctx, request, missing)
    return _answer(broker, ctx, request, {})


async def _create_and_answer(
    broker: Broker, ctx: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    refused = await auto_create(broker, list(dict.fromkeys(missing)))
    return _answer(broker, ctx, request, refused)


def _answer(
    broker: Broker, ctx: RequestContext, request: MetadataRequest, refused: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.image
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints_to_name(image, broker.node_id, ctx.listener_name, broker.was_just_fenced)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id,
    )
    everything = request.topics is None or (ctx.api_version < ALL_TOPICS_IS_NULL_SINCE and not request.topics)
    if everything:
        response.topics = [_describe(broker, image.topics_by_name[name]) for name in sorted(image.topics_by_name)]
    else:
        for asked in request.topics or []:
            response.topics.append(_answer_topic(broker, asked, refused))
    return response


def _answer_topic(broker: Broker, asked: MetadataRequestTopic, refused: dict[str, ErrorCode]) -> MetadataResponseTopic:
    image = broker.image
    if asked.topic_id != ZERO_UUID:
        found = image.topics_by_id.get(asked.topic_id)
        if found is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _describe(broker, found)
    name = asked.name or ""
    found = image.topics_by_name.get(name)
    if found is not None:
        return _describe(broker, found)
    code = refused.get(name)
    if code is None:
        problem = why_illegal(name)
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if problem else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=code, name=name)


def _describe(broker: Broker, topic: TopicImage) -> MetadataResponseTopic:
    refusing = [node_id for node_id in broker.refusing if broker.is_refusing(node_id)]
    described = MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=is_internal(topic.name))
    for number in sorted(topic.partitions):
        registration = topic.partitions[number]
        leader = visible_leader(broker.image, registration)
        if leader in refusing:
            # A client that is sent to a dead leader asks again a second later; without a leader, at once.
            leader = NO_LEADER
        described.partitions.append(
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=number,
                leader_id=leader,
                leader_epoch=registration.leader_epoch,
                replica_nodes=list(registration.replicas),
                isr_nodes=list(registration.isr),
                offline_replicas=offline_replicas(broker.image, registration),
            )
        )
    return described
