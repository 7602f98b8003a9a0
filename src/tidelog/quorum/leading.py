"""What a leader does with fetches: who holds what, what is committed, and what each replica gets (Q3, Q4)."""

from math import inf

from tidelog.quorum import replication_messages as messages
from tidelog.quorum.member import Member
from tidelog.quorum.outbox import Completed, Parked
from tidelog.quorum.replication_messages import NOT_TOLD, FetchAnswer
from tidelog.quorum.roles import Leader
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse


def leader_error(m: Member, epoch: int) -> ErrorCode:
    """Why a request for the leader of `epoch` is not for this member."""
    if epoch < m.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > m.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(m.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def handle_fetch(m: Member, source: int, request: FetchRequest, now_s: float) -> FetchResponse | Parked:
    if not m.is_same_cluster(request.cluster_id):
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = messages.fetch_of(request)
    if asked is None:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    in_range = 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch and asked.fetch_offset >= 0
    if request.max_wait_ms < 0 or not in_range:
        return _refusal(m, ErrorCode.INVALID_REQUEST)
    error = leader_error(m, asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return _refusal(m, error)
    assert isinstance(m.role, Leader)
    replica = messages.replica_of(request, asked)
    answer = _parting(m, asked)
    if answer is None:
        if replica.id >= 0:
            _on_fetch(m, m.role, replica, asked.fetch_offset, now_s)
        answer = _records(m, m.role, request, asked)
        waits = replica.id >= 0 and request.max_wait_ms > 0 and not answer.error and not answer.records
        if waits and not _has_news(m.role, replica, asked):
            return _park(m, replica, Parked(source, request, now_s + request.max_wait_ms / 1000))
        if replica.id >= 0:
            m.role.progress(replica).told_high_watermark = m.role.high_watermark
    return messages.fetch_response(answer)


def _refusal(m: Member, error: ErrorCode) -> FetchResponse:
    return messages.fetch_response(FetchAnswer(error=error, view=m.view()))


# --- what the fetcher's log is to this one ---


def _parting(m: Member, asked: FetchPartition) -> FetchAnswer | None:
    """None if the fetcher's log is the beginning of this one; else what to do about it. It then counts for nothing."""
    assert isinstance(m.role, Leader)
    snapshot = _snapshot_instead(m, asked.fetch_offset, asked.last_fetched_epoch)
    if snapshot is not None:
        return FetchAnswer(view=m.view(), high_watermark=m.role.high_watermark, snapshot=snapshot)
    if asked.fetch_offset == 0 and asked.last_fetched_epoch == 0:
        return None
    end = m.log.log.end_offset_for_epoch(asked.last_fetched_epoch)
    if end.epoch == asked.last_fetched_epoch and end.start_offset >= asked.fetch_offset:
        return None
    return FetchAnswer(view=m.view(), high_watermark=m.role.high_watermark, diverging=(end.epoch, end.start_offset))


def _snapshot_instead(m: Member, offset: int, epoch: int) -> SnapshotId | None:
    """The newest snapshot, for a log that ends below the start of this one, or whose end cannot be compared."""
    newest, start = m.log.latest_snapshot, m.log.log_start_offset
    if newest is None or newest.end_offset == 0:
        return None
    # An empty log is filled faster from a snapshot than from records that it has made superfluous.
    if offset == 0 or offset < start:
        return newest
    if start == 0:
        return None
    # What came before the start is known by its last epoch alone.
    before = m.log.oldest_snapshot_epoch
    return newest if epoch < before or (offset == start and epoch != before) else None


def _records(m: Member, role: Leader, request: FetchRequest, asked: FetchPartition) -> FetchAnswer:
    max_bytes = min(request.max_bytes, asked.partition_max_bytes, m.config.fetch_max_bytes)
    # Beyond what is durable here: it counts where it is durable, and this leader is one of many.
    end = m.log.log_end_offset
    try:
        records = m.log.log.read(asked.fetch_offset, max_bytes, upper_bound=end, min_one=True).read()
    except ApiError as error:
        m.notes.append(f"the metadata log cannot be read at offset {asked.fetch_offset}: {error}")
        return FetchAnswer(error=error.code, view=m.view())
    return FetchAnswer(
        view=m.view(),
        high_watermark=role.high_watermark,
        log_start_offset=m.log.log_start_offset,
        records=records,
    )


# --- what the leader learns from it ---


def _on_fetch(m: Member, role: Leader, replica: ReplicaKey, fetch_offset: int, now_s: float) -> None:
    """The fetch offset is the end of what the replica holds durably: no other message says so."""
    if not role.voters.is_voter(replica):
        _make_room(m, role, replica, now_s)
    role.progress(replica).on_fetch(fetch_offset, m.log.log_end_offset, now_s)
    if role.on_durable(replica, fetch_offset):
        m.raise_high_watermark(role.high_watermark)


def _make_room(m: Member, role: Leader, newcomer: ReplicaKey, now_s: float) -> None:
    """Observers are not counted for anything, so the longest silent one can be forgotten."""
    observers = [each for each in role.replicas.values() if not role.voters.is_voter(each.key)]
    gone = [each for each in observers if now_s - each.last_fetch_s > m.config.observer_timeout_ms / 1000]
    if newcomer not in role.replicas and len(observers) - len(gone) >= m.config.max_observers:
        gone.append(min(observers, key=lambda each: (each.last_fetch_s, each.key.id)))
    for each in gone:
        role.replicas.pop(each.key, None)


# --- waiting ---


def _has_news(role: Leader, replica: ReplicaKey, asked: FetchPartition) -> bool:
    """Whether more is committed than the fetcher knows of."""
    known = asked.high_watermark
    return role.high_watermark > (role.progress(replica).told_high_watermark if known == NOT_TOLD else known)


def _park(m: Member, replica: ReplicaKey, parked: Parked) -> Parked:
    """One per replica: whoever fetches again has given up the fetch before."""
    before = m.parked.get(replica)
    if before is not None:
        m.overtaken.append(before)
    m.parked[replica] = parked
    return parked


def completed(m: Member, now_s: float) -> list[Completed]:
    """Parked fetches that have something to tell, have waited long enough, or wait at the wrong member."""
    done, m.overtaken = m.overtaken, []
    for replica, parked in list(m.parked.items()):
        asked = messages.fetch_of(parked.request)
        assert asked is not None
        leads = isinstance(m.role, Leader) and m.epoch == asked.current_leader_epoch
        if leads and now_s < parked.deadline_s:
            assert isinstance(m.role, Leader)
            if m.log.log_end_offset <= asked.fetch_offset and not _has_news(m.role, replica, asked):
                continue
        del m.parked[replica]
        done.append(parked)
    return [Completed(parked, _late_response(m, parked)) for parked in done]


def _late_response(m: Member, parked: Parked) -> FetchResponse:
    asked = messages.fetch_of(parked.request)
    assert asked is not None
    error = leader_error(m, asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return _refusal(m, error)
    assert isinstance(m.role, Leader)
    answer = _parting(m, asked)
    if answer is None:
        answer = _records(m, m.role, parked.request, asked)
        m.role.progress(messages.replica_of(parked.request, asked)).told_high_watermark = m.role.high_watermark
    return messages.fetch_response(answer)


def next_deadline_s(m: Member) -> float:
    return min((parked.deadline_s for parked in m.parked.values()), default=inf)
