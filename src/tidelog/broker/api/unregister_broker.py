"""UnregisterBroker (64), version 0: forgets a broker for good, decided by the controller."""

from typing import Final

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

UNREGISTER_TIMEOUT_MS: Final = 30_000


async def handle(broker: Broker, ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    response: UnregisterBrokerResponse = await broker.controller.send(request, timeout_ms=UNREGISTER_TIMEOUT_MS)
    return response
