"""RemoveRaftVoter (81), version 0: a voter becomes an observer, by the quorum's leader (KIP-853)."""

from typing import Final

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

REMOVE_TIMEOUT_MS: Final = 30_000


async def handle(broker: Broker, ctx: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    response: RemoveRaftVoterResponse = await broker.controller.send(request, timeout_ms=REMOVE_TIMEOUT_MS)
    return response
