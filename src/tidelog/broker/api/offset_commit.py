"""OffsetCommit (8), versions 2 to 10: answered when the offsets topic has them; topic ids from v10."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


async def handle(broker: Broker, ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    return await broker.groups.offset_commit(ctx, request)
