"""LeaveGroup (13), versions 0 to 5: one member, from v3 several (KIP-345)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


async def handle(broker: Broker, ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    return await broker.groups.leave_group(ctx, request)
