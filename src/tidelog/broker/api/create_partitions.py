"""CreatePartitions (37), versions 0 to 3: decided by the controller (C1)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


async def handle(broker: Broker, ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    response: CreatePartitionsResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
