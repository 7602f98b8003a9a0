"""OffsetDelete (47), version 0: forgets committed offsets of topics that nobody in the group reads."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


async def handle(broker: Broker, ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    return await broker.groups.offset_delete(ctx, request)
