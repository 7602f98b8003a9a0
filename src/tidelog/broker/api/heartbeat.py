"""Heartbeat (12), versions 0 to 4: a member is alive, and hears of a rebalance."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(broker: Broker, ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return await broker.groups.heartbeat(ctx, request)
