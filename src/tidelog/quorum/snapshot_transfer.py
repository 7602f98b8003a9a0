"""FetchSnapshot: a leader hands its newest snapshot out in pieces, a follower too far behind puts it in place (Q6)."""

from collections.abc import Iterator
from functools import partial

from tidelog.quorum import replication_messages as messages
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.following import heard_from_leader
from tidelog.quorum.leading import leader_error
from tidelog.quorum.member import Member
from tidelog.quorum.outbox import Wish
from tidelog.quorum.replication_messages import SnapshotAnswer
from tidelog.quorum.roles import Follower, Leader
from tidelog.quorum.snapshot_download import SnapshotDownload
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voter_history import VoterHistory, VotersAt
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

# --- the leader ---


def handle_fetch_snapshot(m: Member, request: FetchSnapshotRequest, now_s: float) -> FetchSnapshotResponse:
    if not m.is_same_cluster(request.cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = messages.snapshot_of(request)
    if asked is None:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    error = leader_error(m, asked.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return messages.snapshot_response(SnapshotAnswer(error=error, view=m.view()))
    assert isinstance(m.role, Leader)
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    max_bytes = max(0, min(request.max_bytes, m.config.fetch_snapshot_max_bytes))
    # The one of formatting tells this node who votes, and nobody else.
    found = m.log.read_snapshot(snapshot, max(0, asked.position), max_bytes) if snapshot.end_offset else None
    if found is None:
        return messages.snapshot_response(SnapshotAnswer(error=ErrorCode.SNAPSHOT_NOT_FOUND, view=m.view()))
    size, data = found
    if not 0 <= asked.position < size:
        return messages.snapshot_response(SnapshotAnswer(error=ErrorCode.POSITION_OUT_OF_RANGE, view=m.view()))
    replica = ReplicaKey(request.replica_id, asked.replica_directory_id)
    if m.role.voters.is_voter(replica):
        # It holds nothing yet, but it is there: a leader is not cut off from whom it feeds.
        m.role.progress(replica).last_fetch_s = now_s
    return messages.snapshot_response(
        SnapshotAnswer(view=m.view(), snapshot=snapshot, size=size, position=asked.position, data=data)
    )


# --- the follower ---


def wanted(m: Member, now_s: float) -> Iterator[Wish]:
    if isinstance(m.role, Follower) and m.role.download is not None:
        make = partial(
            messages.snapshot_request,
            m.cluster_id,
            m.key,
            epoch=m.epoch,
            snapshot=m.role.download.snapshot,
            position=m.role.download.position,
            max_bytes=m.config.fetch_snapshot_max_bytes,
        )
        yield m.role.leader_id, now_s, FetchSnapshotRequest, make


def on_snapshot_response(
    m: Member, peer: int, request: FetchSnapshotRequest, answer: SnapshotAnswer, now_s: float
) -> None:
    """`answer.view` has been learned already."""
    asked, role = messages.snapshot_of(request), m.role
    assert asked is not None, request
    if not isinstance(role, Follower) or role.leader_id != peer or asked.current_leader_epoch != role.epoch:
        return
    download = role.download
    if download is None or answer.error not in (
        ErrorCode.NONE,
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.POSITION_OUT_OF_RANGE,
    ):
        return
    heard_from_leader(m, role, now_s)
    if answer.error is not ErrorCode.NONE:
        # The leader has a newer one by now; the next fetch tells which.
        _give_up(role, download)
    elif (answer.snapshot, answer.position) != (download.snapshot, download.position) or not len(answer.data):
        m.notes.append(f"leader {peer} sent {answer.snapshot} at {answer.position}, not {download.snapshot}")
        _give_up(role, download)
        m.in_flight.back_off(peer, now_s)
    else:
        download.append(answer.data)
        if download.position >= answer.size:
            _install(m, role, download, now_s)


def _give_up(role: Follower, download: SnapshotDownload) -> None:
    download.abandon()
    role.download = None


def _install(m: Member, role: Follower, download: SnapshotDownload, now_s: float) -> None:
    snapshot = download.snapshot
    try:
        download.finish()
    except QuorumError as error:
        m.notes.append(f"rejected the snapshot of leader {role.leader_id}: {error}")
        _give_up(role, download)
        m.in_flight.back_off(role.leader_id, now_s)
        return
    m.log.install_snapshot(snapshot, m.wall_ms(now_s))
    role.download = None
    reader = m.log.open_snapshot(snapshot)
    if reader.head.voters is not None:
        m.history = VoterHistory(VotersAt(snapshot.end_offset - 1, reader.head.voters))
    reader.close()
    m.recount_bytes()
    m.raise_high_watermark(snapshot.end_offset)
    m.notes.append(f"installed snapshot {snapshot.file_name} from leader {role.leader_id}")
