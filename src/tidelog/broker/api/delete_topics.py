"""DeleteTopics (20), versions 1 to 6, by name or (v6) by id: decided by the controller (C1)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


async def handle(broker: Broker, ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    response: DeleteTopicsResponse = await broker.controller.send(modern(request), timeout_ms=request.timeout_ms)
    return response


def modern(request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    """As version 6 puts it: that is what goes to a controller at another node."""
    by_name = [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsRequest(topics=[*by_name, *request.topics], timeout_ms=request.timeout_ms)
