"""What the quorum itself answers, in all versions that the wire has.

Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), DescribeQuorum (55), FetchSnapshot (59), AddRaftVoter (80),
RemoveRaftVoter (81), UpdateRaftVoter (82).

Whether a request is for this cluster, this epoch and this member is the quorum's to judge.
"""

import asyncio
from typing import Any

from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import RequestContext
from tidelog.core.ids import NO_LEADER
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from tidelog.wire.messages.vote import VoteRequest


async def handle(services: ControllerServices, ctx: RequestContext, request: Any) -> Any:
    """A requester that goes away while its request is parked takes nothing back, but nobody waits for it any more."""
    task = asyncio.current_task()
    assert task is not None
    forget = ctx.connection.on_close(task.cancel)
    try:
        return await services.quorum.receive(source_of(request), request)
    finally:
        forget()


def source_of(request: Any) -> int:
    """The node that the request names as its sender; -1 if it names none, as a client's does."""
    match request:
        case FetchRequest():
            return request.replica_state.replica_id
        case FetchSnapshotRequest():
            return request.replica_id
        case UpdateRaftVoterRequest():
            return request.voter_id
        case VoteRequest():
            return next((each.replica_id for topic in request.topics for each in topic.partitions), NO_LEADER)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return next((each.leader_id for topic in request.topics for each in topic.partitions), NO_LEADER)
        case _:
            return NO_LEADER
