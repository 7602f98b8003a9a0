"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces its epoch, and gives it up (Q3)."""

from collections.abc import Iterator
from functools import partial

from tidelog.core.ids import NO_LEADER
from tidelog.quorum import election_messages as messages
from tidelog.quorum.election_messages import Answer, LeaderView
from tidelog.quorum.elections import learn
from tidelog.quorum.member import Member
from tidelog.quorum.outbox import Wish
from tidelog.quorum.roles import Follower, Leader, Prospective, Resigned
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


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


def wanted(m: Member, now_s: float) -> Iterator[Wish]:
    """What a leader, or one that resigned, has to tell."""
    if isinstance(m.role, Leader):
        yield from _begin_epochs(m, m.role, now_s)
    elif isinstance(m.role, Resigned):
        request = messages.end_epoch_request(m.cluster_id, m.key.id, m.epoch, m.role.successors, m.endpoints)
        for voter_id in sorted(m.role.unacknowledged):
            yield voter_id, now_s, EndQuorumEpochRequest, lambda: request


def _begin_epochs(m: Member, role: Leader, now_s: float) -> Iterator[Wish]:
    """To every voter once, and again to one that has not fetched for half of its patience."""
    for progress in role.voter_progress():
        voter_id = progress.key.id
        if voter_id == m.key.id:
            continue
        due_s = now_s
        if voter_id in role.acknowledged:
            told_s = role.begin_epoch_sent_s.get(voter_id, role.since_s)
            due_s = max(progress.last_fetch_s, told_s) + m.config.fetch_timeout_s / 2
        make = partial(
            messages.begin_epoch_request, m.cluster_id, m.key.id, m.epoch, role.voters.voters[voter_id], m.endpoints
        )
        yield voter_id, due_s, BeginQuorumEpochRequest, make
