"""How a follower or an observer comes to hold what its leader holds: fetching, cutting, appending (Q3, Q7)."""

from collections.abc import Iterator
from functools import partial

from tidelog.core.ids import NO_LEADER
from tidelog.quorum import replication_messages as messages
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.member import Member
from tidelog.quorum.outbox import Wish
from tidelog.quorum.replication_messages import FetchAnswer
from tidelog.quorum.roles import Follower, Unattached
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.records.batch import iter_headers

# --- what to send ---


def wanted(m: Member, now_s: float) -> Iterator[Wish]:
    """Fetches. None while anything fetched is not durable: the offset would lie."""
    if m.durable_end_offset < m.log.log_end_offset:
        return
    match m.role:
        case Follower() if m.role.download is None:
            yield m.role.leader_id, now_s, FetchRequest, partial(_fetch, m, m.config.fetch_max_wait_ms)
            if not m.may_stand and m.role.fetch_deadline_s <= now_s:
                # An observer calls no election; the others will tell it what became of the leader.
                at_once = partial(_fetch, m, 0)
                yield from ((peer, now_s, FetchRequest, at_once) for peer in m.peers() if peer != m.role.leader_id)
        case Unattached() if not m.is_voter:
            yield from ((peer, now_s, FetchRequest, partial(_fetch, m, 0)) for peer in m.peers())
        case Unattached():
            yield from ((peer, now_s, FetchRequest, partial(_fetch, m, 0)) for peer in sorted(m.role.to_ask))
        case _:
            pass


def _fetch(m: Member, max_wait_ms: int) -> FetchRequest:
    return messages.fetch_request(
        m.cluster_id,
        m.key,
        epoch=m.epoch,
        offset=m.log.log_end_offset,
        last_epoch=m.log.latest_epoch,
        log_start_offset=m.log.log_start_offset,
        high_watermark=m.high_watermark,
        max_wait_ms=max_wait_ms,
        max_bytes=m.config.fetch_max_bytes,
    )


# --- what comes back ---


def on_fetch_response(m: Member, peer: int, request: FetchRequest, answer: FetchAnswer, now_s: float) -> None:
    """`answer.view` has been learned already."""
    asked, role = messages.fetch_of(request), m.role
    assert asked is not None, request
    if isinstance(role, Unattached):
        role.to_ask.discard(peer)
    if not isinstance(role, Follower) or role.leader_id != peer or asked.current_leader_epoch != role.epoch:
        return
    # Whoever asked for another end has cut or filled the log since.
    if answer.error is not ErrorCode.NONE or asked.fetch_offset != m.log.log_end_offset:
        return
    heard_from_leader(m, role, now_s)
    if answer.diverging is not None:
        _cut(m, role, *answer.diverging, now_s)
        return
    if answer.snapshot is not None:
        role.download = m.log.begin_download(answer.snapshot)
        return
    # Only here is this log known to be the beginning of the leader's: before, its records below the leader's high
    # watermark may be others than the committed ones.
    if len(answer.records):
        _append(m, role, answer.records, now_s)
    role.leader_high_watermark = max(role.leader_high_watermark, answer.high_watermark)
    follow_high_watermark(m, role)


def heard_from_leader(m: Member, role: Follower, now_s: float) -> None:
    """A successful fetch: the leader works, and nobody needs another one."""
    role.has_fetched = True
    role.fetch_deadline_s = now_s + m.config.fetch_timeout_s
    m.failed_elections = 0
    m.in_flight.succeeded(role.leader_id)


def follow_high_watermark(m: Member, role: Follower) -> bool:
    """What the leader committed counts here as far as it is durable here."""
    return m.raise_high_watermark(min(role.leader_high_watermark, m.durable_end_offset))


def _cut(m: Member, role: Follower, epoch: int, end_offset: int, now_s: float) -> None:
    """To where both logs may still agree; the next fetch tells whether they do (E3)."""
    own = m.log.log.end_offset_for_epoch(epoch)
    offset = min(own.start_offset, end_offset) if own.epoch == epoch else own.start_offset
    if offset < 0:
        _distrust(m, role, f"a diverging epoch {epoch}, newer than every epoch of this log", now_s)
        return
    if offset < m.high_watermark:
        raise QuorumError(
            f"leader {role.leader_id} of epoch {role.epoch} wants the metadata log cut to offset {offset} (its epoch "
            f"{epoch} ends at {end_offset}), below the high watermark {m.high_watermark}: one of the two lost records"
        )
    before = m.log.log_end_offset
    end = m.log.truncate_to(offset, m.wall_ms(now_s))
    m.history.truncate_to(end)
    m.recount_bytes()
    m.notes.append(
        f"cut the metadata log from {before} to {end}: leader {role.leader_id} does not have the records after it"
    )


def _append(m: Member, role: Follower, records: Buffer, now_s: float) -> None:
    data = memoryview(records)
    try:
        expected, epoch = m.log.log_end_offset, m.log.latest_epoch
        for _, header in iter_headers(data):
            if header.base_offset != expected or not epoch <= header.partition_leader_epoch <= role.epoch:
                raise WireError(f"a batch of epoch {header.partition_leader_epoch} at offset {header.base_offset}")
            expected, epoch = header.next_offset, header.partition_leader_epoch
        start = m.log.log_end_offset
        m.append(data, m.wall_ms(now_s))
    except (WireError, ApiError) as error:
        _distrust(m, role, str(error), now_s)
        return
    for batch in m.log.control_batches(start, m.log.log_end_offset):
        m.on_replicated(batch)


def _distrust(m: Member, role: Follower, what: str, now_s: float) -> None:
    """Nothing of it is used; it is asked for again after a moment."""
    m.notes.append(f"leader {role.leader_id} of epoch {role.epoch} sent {what} where {m.log.log_end_offset} comes next")
    m.in_flight.back_off(role.leader_id, now_s)


def on_refused(m: Member, peer: int, now_s: float) -> None:
    """Nobody listens where the leader was: no need to sit out the timeout (Q5)."""
    role = m.role
    if isinstance(role, Unattached):
        role.to_ask.discard(peer)
    if isinstance(role, Follower) and role.leader_id == peer != NO_LEADER:
        role.has_fetched = False
        wait_s = m.backoff_s() if m.failed_elections else m.rng.uniform(0, m.config.refused_wait_ms / 1000)
        role.fetch_deadline_s = min(role.fetch_deadline_s, now_s + (wait_s if m.may_stand else 0))
