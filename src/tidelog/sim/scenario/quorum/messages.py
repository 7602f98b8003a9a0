"""The quorum's messages as bytes, as between real nodes, and as one line of text each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidelog.core.ids import NO_LEADER
from tidelog.wire.codec import read_message, write_message
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from tidelog.wire.messages.vote import VoteRequest, VoteResponse
from tidelog.wire.records.batch import iter_headers

Body = Any  # one of the classes below: the messages have no common base

_VERSIONS: Final[dict[type, int]] = {
    VoteRequest: 2,
    VoteResponse: 2,
    BeginQuorumEpochRequest: 1,
    BeginQuorumEpochResponse: 1,
    EndQuorumEpochRequest: 1,
    EndQuorumEpochResponse: 1,
    FetchRequest: 17,
    FetchResponse: 17,
    FetchSnapshotRequest: 1,
    FetchSnapshotResponse: 1,
    AddRaftVoterRequest: 1,
    AddRaftVoterResponse: 1,
    RemoveRaftVoterRequest: 0,
    RemoveRaftVoterResponse: 0,
    UpdateRaftVoterRequest: 0,
    UpdateRaftVoterResponse: 0,
}


@dataclass(frozen=True, slots=True)
class Promise:
    """What a message says of its sender: its epoch, and the candidate if it is a vote."""

    text: str
    epoch: int
    vote_for: int | None = None


def through_the_wire(body: Body) -> Body:
    """What the other side reads of it: nothing is shared, and a field that the version lacks does not arrive."""
    cls = type(body)
    return read_message(cls, _VERSIONS[cls], memoryview(write_message(body, _VERSIONS[cls])))


def kind(body: Body) -> str:
    """`Vote`, `Fetch` … for requests and responses alike."""
    return type(body).__name__.removesuffix("Request").removesuffix("Response")


def is_granted_vote(body: Body) -> bool:
    return isinstance(body, VoteResponse) and any(
        partition.vote_granted for topic in body.topics for partition in topic.partitions
    )


def told(body: Body) -> str:
    """The message in one line: what matters to the quorum, in Kafka's words."""
    shown = _SHOWN[type(body)](body)
    return " ".join([kind(body), *([] if not type(body).__name__.endswith("Response") else ["response"]), *shown])


def promise(body: Body, request: Body | None = None) -> Promise:
    """What the sender must have stored before this leaves; `request` is what it answers."""
    about = _partition(body)
    if isinstance(body, FetchResponse) and about is not None:
        return Promise(told(body), about.current_leader.leader_epoch)
    if isinstance(body, VoteRequest):
        return Promise(told(body), about.replica_epoch)
    epoch = max((getattr(about, name, -1) for name in ("leader_epoch", "current_leader_epoch")), default=-1)
    if isinstance(request, VoteRequest) and is_granted_vote(body) and not _partition(request).pre_vote:
        return Promise(told(body), epoch, vote_for=_partition(request).replica_id)
    return Promise(told(body), epoch)


def _partition(body: Body) -> Any:
    """The one partition a quorum message is about; an error for the whole request comes without."""
    for topic in getattr(body, "topics", None) or getattr(body, "responses", None) or ():
        for partition in topic.partitions:
            return partition
    return None


def _error(code: int) -> list[str]:
    return [ErrorCode(code).name] if code else []


def _leader(leader_id: int, epoch: int) -> str:
    return f"epoch={epoch} leader={'none' if leader_id == NO_LEADER else leader_id}"


def _vote(body: VoteRequest) -> list[str]:
    asked = _partition(body)
    return [
        *(["pre-vote"] if asked.pre_vote else []),
        f"epoch={asked.replica_epoch} log={asked.last_offset}@{asked.last_offset_epoch}",
    ]


def _answer(body: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse) -> list[str]:
    answer = _partition(body)
    if answer is None:
        return _error(body.error_code)
    granted = ["granted" if answer.vote_granted else "refused"] if isinstance(body, VoteResponse) else []
    return [*granted, *_error(answer.error_code), _leader(answer.leader_id, answer.leader_epoch)]


def _begin(body: BeginQuorumEpochRequest) -> list[str]:
    return [_leader(_partition(body).leader_id, _partition(body).leader_epoch)]


def _end(body: EndQuorumEpochRequest) -> list[str]:
    ending = _partition(body)
    successors = ",".join(str(each.candidate_id) for each in ending.preferred_candidates)
    return [_leader(ending.leader_id, ending.leader_epoch), f"successors={successors or 'none'}"]


def _fetch(body: FetchRequest) -> list[str]:
    asked = _partition(body)
    return [f"epoch={asked.current_leader_epoch} offset={asked.fetch_offset}@{asked.last_fetched_epoch}"]


def _fetched(body: FetchResponse) -> list[str]:
    answer = _partition(body)
    if answer is None:
        return _error(body.error_code)
    shown = [*_error(answer.error_code), _leader(answer.current_leader.leader_id, answer.current_leader.leader_epoch)]
    if answer.diverging_epoch.epoch >= 0:
        return [*shown, f"diverging={answer.diverging_epoch.end_offset}@{answer.diverging_epoch.epoch}"]
    if answer.snapshot_id.epoch >= 0:
        return [*shown, f"snapshot={answer.snapshot_id.end_offset}@{answer.snapshot_id.epoch}"]
    headers = [header for _, header in iter_headers(answer.records or b"")]
    records = f"{headers[0].base_offset}..{headers[-1].last_offset}" if headers else "none"
    return [*shown, f"records={records} hw={answer.high_watermark}"]


def _fetch_snapshot(body: FetchSnapshotRequest) -> list[str]:
    asked = _partition(body)
    return [
        f"epoch={asked.current_leader_epoch} snapshot={asked.snapshot_id.end_offset}@{asked.snapshot_id.epoch}"
        f" position={asked.position}"
    ]


def _fetched_snapshot(body: FetchSnapshotResponse) -> list[str]:
    answer = _partition(body)
    if answer is None:
        return _error(body.error_code)
    end = answer.position + len(answer.unaligned_records)
    return [
        *_error(answer.error_code),
        f"snapshot={answer.snapshot_id.end_offset}@{answer.snapshot_id.epoch}",
        f"bytes={answer.position}..{end} of {answer.size}",
    ]


def _voter(body: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest) -> list[str]:
    return [f"voter={body.voter_id}"]


def _voter_answer(body: AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse) -> list[str]:
    return _error(body.error_code) or ["ok"]


_SHOWN: Final[dict[type, Callable[[Any], list[str]]]] = {
    VoteRequest: _vote,
    VoteResponse: _answer,
    BeginQuorumEpochRequest: _begin,
    BeginQuorumEpochResponse: _answer,
    EndQuorumEpochRequest: _end,
    EndQuorumEpochResponse: _answer,
    FetchRequest: _fetch,
    FetchResponse: _fetched,
    FetchSnapshotRequest: _fetch_snapshot,
    FetchSnapshotResponse: _fetched_snapshot,
    AddRaftVoterRequest: _voter,
    AddRaftVoterResponse: _voter_answer,
    RemoveRaftVoterRequest: _voter,
    RemoveRaftVoterResponse: _voter_answer,
    UpdateRaftVoterRequest: _voter,
    UpdateRaftVoterResponse: _voter_answer,
}
