"""AddRaftVoter (80), versions 0 and 1: an observer becomes a voter, by the quorum's leader (KIP-853)."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


async def handle(broker: Broker, ctx: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    response: AddRaftVoterResponse = await broker.controller.send(request, timeout_ms=request.timeout_ms)
    return response
