"""DescribeQuorum (55), versions 0 to 2: voters and observers, as the quorum's leader sees them (KIP-595, KIP-836)."""

from typing import Final

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

# Asked when something is wrong: a quorum without a leader should be told as such before the asker gives up.
DESCRIBE_TIMEOUT_MS: Final = 10_000


async def handle(broker: Broker, ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    response: DescribeQuorumResponse = await broker.controller.send(request, timeout_ms=DESCRIBE_TIMEOUT_MS)
    return response
