"""IncrementalAlterConfigs (44), versions 0 and 1: topic and dynamic broker configs, decided by the controller (C1)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

CONFIG_TIMEOUT_MS = 30_000


async def handle(
    broker: Broker, ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    response: IncrementalAlterConfigsResponse = await broker.controller.send(request, timeout_ms=CONFIG_TIMEOUT_MS)
    return response
