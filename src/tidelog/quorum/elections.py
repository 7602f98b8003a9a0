"""How a leader is found: timers, Vote with its pre-vote (KIP-996), BeginQuorumEpoch, EndQuorumEpoch (Q2, Q3, Q5)."""

from collections.abc import Iterator
from math import inf
from typing import Any

from tidelog.core.ids import NO_LEADER
from tidelog.quorum import election_messages as messages
from tidelog.quorum.election_messages import Answer, LeaderView
from tidelog.quorum.member import Member
from tidelog.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.wire.messages.vote import VoteRequest, VoteResponse

# --- what anybody says about epoch and leader ---


def learn(m: Member, view: LeaderView, now_s: float) -> None:
    """A newer epoch, or the leader of this one, changes what this member is."""
    if view.endpoint is not None and view.leader_id >= 0 and view.epoch >= m.epoch:
        m.learned_endpoints = {view.leader_id: view.endpoint}
    has_leader = view.leader_id not in (NO_LEADER, m.key.id)
    if view.epoch > m.epoch:
        if has_leader:
            m.become_follower(view.leader_id, view.epoch, now_s)
        else:
            m.become_unattached(view.epoch, now_s)
    elif view.epoch == m.epoch and has_leader and m.leader_id == NO_LEADER:
        m.become_follower(view.leader_id, view.epoch, now_s)


# --- timers ---


def advance(m: Member, now_s: float) -> bool:
    """At most one change of role that is due; whether there was one."""
    before = m.role
    match before:
        case Unattached():
            if before.election_deadline_s <= now_s and m.is_voter and not m.shutting_down:
                m.become_prospective(now_s)
        case Prospective():
            _advance_pre_vote(m, before, now_s)
        case Candidate():
            _advance_election(m, before, now_s)
        case Follower():
            if before.fetch_deadline_s <= now_s and m.is_voter and not m.shutting_down:
                m.become_prospective(now_s)
        case Leader():
            if _must_resign(m, before, now_s):
                m.become_resigned(now_s)
        case Resigned():
            if before.deadline_s <= now_s and not m.shutting_down:
                _end_resignation(m, now_s)
    return m.role is not before


def _end_resignation(m: Member, now_s: float) -> None:
    if m.is_voter:
        m.become_prospective(now_s)
    else:
        # In its own epoch it could not follow anybody: the leader of that one is itself.
        m.become_unattached(m.epoch + 1, now_s)


def _advance_pre_vote(m: Member, role: Prospective, now_s: float) -> None:
    if m.shutting_down:
        return
    if role.is_won:
        m.become_candidate(now_s)
    elif role.is_lost or role.election_deadline_s <= now_s:
        m.failed_elections += 1
        if m.leader_id in (NO_LEADER, m.key.id):
            m.become_unattached(m.epoch, now_s, deadline_s=now_s + m.backoff_s())
        else:
            m.become_follower(m.leader_id, m.epoch, now_s)


def _advance_election(m: Member, role: Candidate, now_s: float) -> None:
    if role.is_won:
        m.become_leader(now_s)
    elif role.election_deadline_s <= now_s and not m.shutting_down:
        if not role.backing_off:
            m.failed_elections += 1
        m.become_prospective(now_s)
    elif role.is_lost and not role.backing_off:
        m.failed_elections += 1
        role.backing_off = True
        role.election_deadline_s = min(role.election_deadline_s, now_s + m.backoff_s())


def _must_resign(m: Member, role: Leader, now_s: float) -> bool:
    """Orderly, or cut off from its majority (KAFKA-15489), or removed from the voters by a record that is committed."""
    removed = not m.is_voter and m.history.latest_offset < role.high_watermark
    cut_off = now_s >= role.last_majority_s(m.key) + m.config.check_quorum_timeout_s
    return m.shutting_down or removed or cut_off


def next_deadline_s(m: Member, now_s: float) -> float:
    """When `advance` has something to look at again. What is past and changed nothing (observers, shutdown) is not."""
    match m.role:
        case Unattached() | Prospective() | Candidate():
            deadline_s = m.role.election_deadline_s
        case Follower():
            deadline_s = m.role.fetch_deadline_s
        case Leader():
            deadline_s = m.role.last_majority_s(m.key) + m.config.check_quorum_timeout_s
        case Resigned():
            deadline_s = m.role.deadline_s
    return deadline_s if deadline_s > now_s else inf


# --- Vote ---


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


# --- BeginQuorumEpoch and EndQuorumEpoch ---


def handle_begin_epoch(m: Member, request: BeginQuorumEpochRequest, now_s: float) -> BeginQuorumEpochResponse:
    if not m.is_same_cluster(request.cluster_id):
        return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    told = messages.begin_of(request)
    if told is None:
        return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _leader_error(m, told.leader_id, told.leader_epoch)
    if error is ErrorCode.NONE:
        learn(m, LeaderView(told.leader_id, told.leader_epoch, _listener(m, request)), now_s)
        if isinstance(m.role, Prospective):
            # It had doubts about this very leader.
            m.become_follower(told.leader_id, told.leader_epoch, now_s)
        if request.voter_id not in (-1, m.key.id) or not m.directory_matches(told.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
    return messages.begin_epoch_response(error, m.view())


def handle_end_epoch(m: Member, request: EndQuorumEpochRequest, now_s: float) -> EndQuorumEpochResponse:
    if not m.is_same_cluster(request.cluster_id):
        return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    told = messages.end_of(request)
    if told is None:
        return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = _leader_error(m, told.leader_id, told.leader_epoch)
    if error is ErrorCode.NONE:
        learn(m, LeaderView(told.leader_id, told.leader_epoch, _listener(m, request)), now_s)
        if isinstance(m.role, Follower):
            m.role.has_fetched = False
            wait_s = _succession_wait_s(m, messages.successors_of(told))
            m.role.fetch_deadline_s = min(m.role.fetch_deadline_s, now_s + wait_s)
    return messages.end_epoch_response(error, m.view())


def _leader_error(m: Member, leader_id: int, epoch: int) -> ErrorCode:
    if epoch < m.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    known = m.leader_id if epoch == m.epoch else NO_LEADER
    # Two leaders in an epoch cannot be; whoever says so is not believed.
    if leader_id < 0 or leader_id == m.key.id or known not in (NO_LEADER, leader_id):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _listener(m: Member, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> tuple[str, int] | None:
    name = m.config.listener_name
    return next(((each.host, each.port) for each in request.leader_endpoints if each.name == name), None)


def _succession_wait_s(m: Member, successors: list[ReplicaKey]) -> float:
    """The most complete log goes first, each next one after twice the wait."""
    position = next((at for at, key in enumerate(successors) if key.id == m.key.id), 0)
    if position == 0:
        return 0.0
    shortest_ms = m.config.election_backoff_max_ms / (1 << (len(successors) - 1))
    return min(shortest_ms * (1 << (position - 1)), m.config.election_backoff_max_ms) / 1000


def on_begin_response(m: Member, peer: int, request: BeginQuorumEpochRequest, answer: Answer, now_s: float) -> None:
    told = messages.begin_of(request)
    if isinstance(m.role, Leader) and told is not None and told.leader_epoch == m.epoch and not answer.error:
        m.role.acknowledged.add(peer)
        m.role.begin_epoch_sent_s[peer] = now_s


def on_end_response(m: Member, peer: int, answer: Answer) -> None:
    if isinstance(m.role, Resigned) and not answer.error:
        m.role.unacknowledged.discard(peer)


# --- what to send ---


def wanted(m: Member, now_s: float) -> Iterator[tuple[int, float, Any]]:
    """(peer, from when on, request) of everything the role asks for now or later."""
    match m.role:
        case Prospective() | Candidate() if not m.role.backing_off:
            for voter_id in m.role.unanswered:
                yield voter_id, now_s, _vote_request(m, m.role, voter_id)
        case Leader():
            yield from _begin_epochs(m, m.role, now_s)
        case Resigned():
            for voter_id in sorted(m.role.unacknowledged):
                request = messages.end_epoch_request(m.cluster_id, m.key.id, m.epoch, m.role.successors, m.endpoints)
                yield voter_id, now_s, request
        case _:
            pass


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


def _begin_epochs(m: Member, role: Leader, now_s: float) -> Iterator[tuple[int, float, BeginQuorumEpochRequest]]:
    """To every voter once, and again to one that has not fetched for half of its patience."""
    for progress in role.voter_progress():
        voter_id = progress.key.id
        if voter_id == m.key.id:
            continue
        due_s = now_s
        if voter_id in role.acknowledged:
            told_s = role.begin_epoch_sent_s.get(voter_id, role.since_s)
            due_s = max(progress.last_fetch_s, told_s) + m.config.fetch_timeout_s / 2
        request = messages.begin_epoch_request(
            m.cluster_id, m.key.id, m.epoch, role.voters.voters[voter_id], m.endpoints
        )
        yield voter_id, due_s, request
