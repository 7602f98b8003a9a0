"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: one voter at a time, each change committed before the next (KIP-853).

The new voters are in force as soon as their record stands in the leader's log, and commit it themselves. That is safe
while two sets that follow each other differ by one voter: any majority of the one then meets any majority of the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf

from tidelog.core.ids import ZERO_UUID
from tidelog.quorum.election_messages import LeaderView, error_of
from tidelog.quorum.leading import leader_error
from tidelog.quorum.member import Endpoints, Member
from tidelog.quorum.outbox import Completed, Parked, PendingChange, Wish
from tidelog.quorum.roles import Follower, Leader, Resigned
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, KRAFT_VERSION_STATIC, ReplicaKey, Voter, VoterSet
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.wire.messages.update_raft_voter import (
    CurrentLeader,
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

VoterRequest = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
VoterResponse = AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse


class Refused(Exception):
    """What the requester hears instead of a change."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def handle(m: Member, source: int, request: VoterRequest, now_s: float) -> VoterResponse | Parked:
    try:
        voters = _changed(m, request, now_s)
    except Refused as refused:
        return _response(m, request, refused.error, str(refused))
    if voters == m.voters:
        return _response(m, request, ErrorCode.NONE)
    offset = m.append_control([voters.to_record()], now_s)
    if isinstance(request, AddRaftVoterRequest) and not request.ack_when_committed:
        return _response(m, request, ErrorCode.NONE)
    timeout_ms = m.config.request_timeout_ms
    if isinstance(request, AddRaftVoterRequest) and request.timeout_ms > 0:
        timeout_ms = request.timeout_ms
    parked = Parked(source, request, now_s + timeout_ms / 1000)
    m.pending_change = PendingChange(parked, m.epoch, offset)
    return parked


def _changed(m: Member, request: VoterRequest, now_s: float) -> VoterSet:
    """The voters as the request wants them; the order of the checks is Kafka's."""
    if not m.is_same_cluster(request.cluster_id):
        raise Refused(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"the request names another cluster; this cluster is {m.cluster_id}"
        )
    epoch = request.current_leader_epoch if isinstance(request, UpdateRaftVoterRequest) else m.epoch
    error = leader_error(m, epoch)
    if error is not ErrorCode.NONE:
        raise Refused(error, f"node {m.key.id} does not lead epoch {epoch} of the metadata quorum")
    assert isinstance(m.role, Leader)
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "a voter needs a node id and a directory id")
    _check_ready(m, m.role)
    match request:
        case AddRaftVoterRequest():
            return _added(m, m.role, key, _listeners(m, request), now_s)
        case UpdateRaftVoterRequest():
            return _updated(m, key, _listeners(m, request))
        case RemoveRaftVoterRequest():
            return _removed(m, key)


def _check_ready(m: Member, role: Leader) -> None:
    """A leader changes voters once its own epoch is committed, and the change before it."""
    if m.pending_change is not None:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "another voter change is still in progress")
    if role.high_watermark < 0:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"the leader has not committed a record in epoch {role.epoch} yet")
    if m.voters.kraft_version < KRAFT_VERSION_RECONFIGURABLE:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controller.quorum.voters defines the voters, because kraft.version is {m.voters.kraft_version}",
        )
    if m.history.latest_offset >= role.high_watermark:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "the last voter change is not committed yet")


def _listeners(m: Member, request: AddRaftVoterRequest | UpdateRaftVoterRequest) -> Endpoints:
    found = tuple((each.name, each.host, each.port) for each in request.listeners)
    if m.config.listener_name and m.config.listener_name not in {name for name, _, _ in found}:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"the request has no endpoint for the listener {m.config.listener_name}"
        )
    return found


def _added(m: Member, role: Leader, key: ReplicaKey, endpoints: Endpoints, now_s: float) -> VoterSet:
    if key.id in m.voters.voters:
        raise Refused(ErrorCode.DUPLICATE_VOTER, f"node {key.id} is already a voter")
    progress = role.replicas.get(key)
    # A voter that has everything to fetch yet would hold up every commit that needs it.
    if progress is None or now_s - progress.last_caught_up_s > m.config.fetch_timeout_s:
        raise Refused(
            ErrorCode.REQUEST_TIMED_OUT, f"node {key.id} is behind the leader's log, or does not fetch from this leader"
        )
    return m.voters.with_voter(Voter(key, endpoints))


def _updated(m: Member, key: ReplicaKey, endpoints: Endpoints) -> VoterSet:
    if not m.voters.is_voter(key):
        raise Refused(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} with directory {key.directory_id} is not a voter")
    return m.voters.with_voter(Voter(key, endpoints))


def _removed(m: Member, key: ReplicaKey) -> VoterSet:
    if not m.voters.is_voter(key):
        raise Refused(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} with directory {key.directory_id} is not a voter")
    if len(m.voters.ids) == 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
    return m.voters.without(key.id)


def _response(m: Member, request: VoterRequest, error: ErrorCode, message: str | None = None) -> VoterResponse:
    match request:
        case AddRaftVoterRequest():
            return AddRaftVoterResponse(error_code=error, error_message=message)
        case RemoveRaftVoterRequest():
            return RemoveRaftVoterResponse(error_code=error, error_message=message)
        case UpdateRaftVoterRequest():
            view = m.view()
            host, port = view.endpoint or ("", 0)
            leader = CurrentLeader(leader_id=view.leader_id, leader_epoch=view.epoch, host=host, port=port)
            return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def completed(m: Member, now_s: float) -> list[Completed]:
    """The pending change, if it is committed, too late, or no longer this member's business."""
    pending = m.pending_change
    if pending is None:
        return []
    # A leader that removed itself has resigned with the commit of just that.
    in_office = isinstance(m.role, Leader | Resigned) and m.epoch == pending.epoch
    if in_office and m.high_watermark > pending.offset:
        error = ErrorCode.NONE
    elif not isinstance(m.role, Leader) or not in_office:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif now_s >= pending.parked.deadline_s:
        error = ErrorCode.REQUEST_TIMED_OUT
    else:
        return []
    m.pending_change = None
    return [Completed(pending.parked, _response(m, pending.parked.request, error))]


def next_deadline_s(m: Member) -> float:
    return inf if m.pending_change is None else m.pending_change.parked.deadline_s


# --- a voter that has moved ---


def wanted(m: Member, now_s: float) -> Iterator[Wish]:
    """A voter whose endpoints are not those of the voters tells the leader, once it follows it."""
    role = m.role
    if not isinstance(role, Follower) or not role.has_fetched or role.endpoints_told or not m.endpoints:
        return
    voters = m.voters
    if voters.kraft_version < KRAFT_VERSION_RECONFIGURABLE or not m.is_voter:
        return
    if voters.voters[m.key.id].endpoints == m.endpoints:
        return
    make = partial(
        UpdateRaftVoterRequest,
        cluster_id=m.cluster_id,
        current_leader_epoch=m.epoch,
        voter_id=m.key.id,
        voter_directory_id=m.key.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in m.endpoints],
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_STATIC, max_supported_version=KRAFT_VERSION_RECONFIGURABLE
        ),
    )
    yield role.leader_id, now_s, UpdateRaftVoterRequest, make


@dataclass(frozen=True, slots=True)
class UpdateAnswer:
    """The leader's word on where this voter is reached."""

    error: ErrorCode
    view: LeaderView


def update_answer_of(response: UpdateRaftVoterResponse) -> UpdateAnswer:
    leader = response.current_leader
    endpoint = (leader.host, leader.port) if leader.host else None
    return UpdateAnswer(error_of(response.error_code), LeaderView(leader.leader_id, leader.leader_epoch, endpoint))


def on_update_response(m: Member, answer: UpdateAnswer) -> None:
    """A change of voters that is under way passes; any other refusal stands until the next leader."""
    if isinstance(m.role, Follower) and answer.error is not ErrorCode.REQUEST_TIMED_OUT:
        m.role.endpoints_told = True
