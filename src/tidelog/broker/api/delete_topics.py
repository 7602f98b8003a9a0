"""DeleteTopics (20), versions 1 to 6, by name or (v6) by id: decided by the controller (C1)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


async def handle(broker: Broker, ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    response: DeleteTopicsResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
