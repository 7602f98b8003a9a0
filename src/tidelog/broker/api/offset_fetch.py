"""OffsetFetch (9), versions 1 to 10: committed offsets, from v8 of several groups; topic ids from v10."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


async def handle(broker: Broker, ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    return await broker.groups.offset_fetch(ctx, request)
