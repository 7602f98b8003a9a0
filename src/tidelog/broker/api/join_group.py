"""JoinGroup (11), versions 0 to 9: a member asks into a group; answered when the join phase is over."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


async def handle(broker: Broker, ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    return await broker.groups.join_group(ctx, request)
