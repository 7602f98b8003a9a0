"""SyncGroup (14), versions 0 to 5: the leader's assignments, to each member its own, once they are stored."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(broker: Broker, ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    return await broker.groups.sync_group(ctx, request)
