"""Vote, with its pre-vote (KIP-996): who is elected by whom (Q1, Q2)."""

from collections.abc import Iterator
from functools import partial

from tidelog.core.ids import NO_LEADER
from tidelog.quorum import election_messages as messages
from tidelog.quorum.election_messages import Answer
from tidelog.quorum.member import Member
from tidelog.quorum.outbox import Wish
from tidelog.quorum.roles import Candidate, Follower, Leader, Prospective
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.vote import VoteRequest, VoteResponse


def handle_vote(m: Member, request: VoteRequest, now_s: float) -> VoteResponse:
    if not m.is_same_cluster(request.cluster_id):
        return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = messages.vote_of(request)
    if asked is None:
        return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
    # A candidate has opened its epoch with this election; who only asks has stayed in its own.
    newest_epoch = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if asked.replica_id < 0 or asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= newest_epoch:
        return messages.vote_response(ErrorCode.INVALID_REQUEST, m.view(), granted=False)
    if asked.replica_epoch < m.epoch:
        return messages.vote_response(ErrorCode.FENCED_LEADER_EPOCH, m.view(), granted=False)
    if asked.replica_epoch > m.epoch:
        m.become_unattached(asked.replica_epoch, now_s)
    if request.voter_id not in (-1, m.key.id) or not m.directory_matches(asked.voter_directory_id):
        return messages.vote_response(ErrorCode.INVALID_VOTER_KEY, m.view(), granted=False)
    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    as_complete = (asked.last_offset_epoch, asked.last_offset) >= (m.log.latest_epoch, m.log.log_end_offset)
    granted = _would_elect(m, as_complete) if asked.pre_vote else _may_vote(m, candidate, as_complete)
    if granted and not asked.pre_vote and m.election.voted is None:
        m.vote_for(candidate, now_s)
    return messages.vote_response(ErrorCode.NONE, m.view(), granted=granted)


def _would_elect(m: Member, as_complete: bool) -> bool:
    """A pre-vote promises nothing, so it is given to anybody as complete, unless there is a leader that works (Q2)."""
    if isinstance(m.role, Leader) or (isinstance(m.role, Follower) and m.role.has_fetched):
        return False
    return as_complete


def _may_vote(m: Member, candidate: ReplicaKey, as_complete: bool) -> bool:
    """One vote in an epoch, and none once its leader is known."""
    if m.election.voted is not None:
        return m.election.voted.matches(candidate)
    return as_complete and m.leader_id == NO_LEADER


def on_vote_response(m: Member, peer: int, request: VoteRequest, answer: Answer) -> None:
    asked, role = messages.vote_of(request), m.role
    assert asked is not None, request
    if not isinstance(role, Prospective | Candidate) or asked.replica_epoch != role.epoch:
        return
    if asked.pre_vote == isinstance(role, Prospective) and answer.error in (
        ErrorCode.NONE,
        ErrorCode.INVALID_VOTER_KEY,
    ):
        role.on_answer(peer, granted=answer.granted)


def wanted(m: Member, now_s: float) -> Iterator[Wish]:
    """For every voter that has not answered yet."""
    role = m.role
    if isinstance(role, Prospective | Candidate) and not role.backing_off:
        for voter_id in role.unanswered:
            yield voter_id, now_s, VoteRequest, partial(_vote_request, m, role, voter_id)


def _vote_request(m: Member, role: Prospective | Candidate, voter_id: int) -> VoteRequest:
    return messages.vote_request(
        m.cluster_id,
        m.key,
        role.voters.voters[voter_id],
        epoch=role.epoch,
        last_epoch=m.log.latest_epoch,
        end_offset=m.log.log_end_offset,
        pre=isinstance(role, Prospective),
    )
