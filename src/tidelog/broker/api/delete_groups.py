"""DeleteGroups (42), versions 0 to 2: empty groups with all their offsets."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


async def handle(broker: Broker, ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return await broker.groups.delete_groups(ctx, request)
