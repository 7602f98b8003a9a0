"""ElectLeaders (43), versions 0 to 2: preferred or unclean elections, decided by the controller (C6, C7)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


async def handle(broker: Broker, ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    response: ElectLeadersResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
