"""Fetch (1), versions 17 and 18, of the metadata log alone: how controllers and brokers replicate it (Q3, Q7)."""

from typing import Final

from tidelog.broker.controller_api import quorum
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import RequestContext
from tidelog.core.ids import METADATA_TOPIC_ID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

# A fetch is parked no longer than this, whatever it asks for: ten times what our own members ask.
MAX_WAIT_MS: Final = 5000


async def handle(services: ControllerServices, ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    if request.topics and all(topic.topic_id != METADATA_TOPIC_ID for topic in request.topics):
        return _unknown(request)
    request.max_wait_ms = min(request.max_wait_ms, MAX_WAIT_MS)
    response: FetchResponse = await quorum.handle(services, ctx, request)
    return response


def _unknown(request: FetchRequest) -> FetchResponse:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=error, high_watermark=-1, records=b"")
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
