"""CreateTopics (19), versions 2 to 7: decided by the controller, answered after its records are committed (C1)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


async def handle(broker: Broker, ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    response: CreateTopicsResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
