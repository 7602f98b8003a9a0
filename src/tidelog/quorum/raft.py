"""One member of the metadata quorum: Raft by pull (KRaft), synchronous, with time and messages handed in.

How it is driven:

- `poll(now_s)` after every input and when the time it named has come: timers run, and what is to be sent comes out.
- `receive` answers a request, or parks it; `completed_fetches` hands out the answers to parked ones.
- `on_response` and `on_disconnect` tell what became of a request that was sent.
- While `needs_flush`: `begin_flush`, run the task anywhere, `on_flushed`. Nothing counts before it is durable (Q4).

The order that matters: `quorum-state` is durable before a message or record that depends on it exists (Q1). Nothing
here blocks but writing that file and putting a fetched snapshot in place.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from uuid import UUID

from tidelog.quorum import (
    elections,
    following,
    leading,
    quorum_epochs,
    snapshot_transfer,
    voter_changes,
    votes,
)
from tidelog.quorum.describe import handle_describe_quorum
from tidelog.quorum.election_messages import Answer, answer_of
from tidelog.quorum.errors import BatchTooLarge, NotLeader
from tidelog.quorum.member import Endpoints, Member
from tidelog.quorum.metadata_log import LogBatch, MetadataLog, MetadataLogConfig
from tidelog.quorum.outbox import Completed, Outbox, Parked, Send
from tidelog.quorum.raft_config import RaftConfig
from tidelog.quorum.recovery import load_election, load_voters, not_behind_its_log
from tidelog.quorum.replication_messages import FetchAnswer, SnapshotAnswer, fetch_answer_of, snapshot_answer_of
from tidelog.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Role
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voter_changes import UpdateAnswer, update_answer_of
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log_flush import FlushTask
from tidelog.storage.ports import Disk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from tidelog.wire.messages.vote import VoteRequest, VoteResponse
from tidelog.wire.records.plain import Record, encode_batch

AnyAnswer = Answer | FetchAnswer | SnapshotAnswer | UpdateAnswer

MAX_EPOCH: Final = 2**31 - 1

__all__ = ["Completed", "LoadedSnapshot", "Outbox", "Parked", "Raft", "RaftConfig", "Send"]


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """Where a replay starts: everything below `snapshot.end_offset`."""

    snapshot: SnapshotId
    last_contained_timestamp: int
    values: Iterator[bytes]


class Raft:
    """Invariant: records below `high_watermark` are durable on a majority and never change."""

    def __init__(self, member: Member) -> None:
        self._member = member

    @classmethod
    def open(
        cls,
        disk: Disk,
        metadata_dir: str,
        *,
        node_id: int,
        directory_id: UUID,
        config: RaftConfig,
        log_config: MetadataLogConfig,
        static_voters: VoterSet | None,
        rng: random.Random,
        now_ms: int,
        now_s: float,
        cluster_id: str | None = None,
        endpoints: Endpoints = (),
        bootstrap: tuple[int, ...] = (),
        directory: LogDirectory | None = None,
        may_vote: bool = True,
    ) -> "Raft":
        """What is on disk, checked. QuorumError, one line, if this node must not take part.

        The voters are those of the log; `static_voters` hold when it names none. `endpoints` are this node's own, by
        listener; `bootstrap` names whom an observer asks that knows no voters. A node that is no controller may not
        vote: it made no promise that a lost `quorum-state` could break.
        """
        election = load_election(disk, metadata_dir, may_vote=may_vote)
        newest_epoch = election.epoch if may_vote else MAX_EPOCH
        log = MetadataLog.open(
            disk, metadata_dir, log_config, newest_epoch=newest_epoch, now_ms=now_ms, directory=directory, rng=rng
        )
        if not may_vote:
            election = not_behind_its_log(election, log)
        history = load_voters(log, static_voters, may_be_unknown=bool(bootstrap))
        member = Member(
            disk,
            ReplicaKey(node_id, directory_id),
            log,
            history,
            election,
            config,
            rng,
            cluster_id=cluster_id,
            endpoints=endpoints,
            bootstrap=bootstrap,
            now_ms=now_ms,
            now_s=now_s,
        )
        return cls(member)

    # --- where it stands ---

    @property
    def key(self) -> ReplicaKey:
        return self._member.key

    @property
    def role(self) -> Role:
        return self._member.role

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def leader_id(self) -> int:
        """Of this epoch; -1 while that is not known."""
        return self._member.view().leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self._member.role, Leader)

    @property
    def is_voter(self) -> bool:
        return self._member.is_voter

    @property
    def voters(self) -> VoterSet:
        """Those in force: the newest that the log names, committed or not."""
        return self._member.voters

    @property
    def log(self) -> MetadataLog:
        return self._member.log

    @property
    def high_watermark(self) -> int:
        """The end of what is known to be committed; -1 while nothing is. Never goes back."""
        return self._member.high_watermark

    @property
    def is_caught_up(self) -> bool:
        """Whether `high_watermark` is what the leader of this epoch knew to be committed when it last answered."""
        role = self._member.role
        if isinstance(role, Follower):
            return role.has_fetched and 0 <= role.leader_high_watermark <= self.high_watermark
        return isinstance(role, Leader) and role.high_watermark >= 0

    @property
    def next_offset(self) -> int:
        """The offset the next record will get."""
        return self._member.log.log_end_offset

    def endpoint(self, node_id: int) -> tuple[str, int] | None:
        """Host and port of a member, as far as is known."""
        return self._member.endpoint(node_id)

    # --- time and messages ---

    def poll(self, now_s: float) -> Outbox:
        """Runs what is due; says what to send, and when to ask again at the latest."""
        m = self._member
        m.in_flight.expire(now_s)
        while elections.advance(m, now_s):
            pass
        sends: list[Send] = []
        poll_at_s = min(
            elections.next_deadline_s(m, now_s), leading.next_deadline_s(m), voter_changes.next_deadline_s(m)
        )
        for peer, due_s, kind, make in chain(
            votes.wanted(m, now_s),
            quorum_epochs.wanted(m, now_s),
            following.wanted(m, now_s),
            snapshot_transfer.wanted(m, now_s),
            voter_changes.wanted(m, now_s),
        ):
            ready_s = max(due_s, m.in_flight.ready_at(peer, kind))
            if ready_s <= now_s:
                request = make()
                m.in_flight.sent(peer, request, now_s)
                sends.append(Send(peer, request))
            else:
                poll_at_s = min(poll_at_s, ready_s)
        return Outbox(tuple(sends), min(poll_at_s, m.in_flight.next_expiry_s()))

    def receive(self, source: int, request: Any, now_s: float) -> Any:
        """The response to a request, or `Parked`."""
        m = self._member
        match request:
            case VoteRequest():
                return votes.handle_vote(m, request, now_s)
            case BeginQuorumEpochRequest():
                return quorum_epochs.handle_begin_epoch(m, request, now_s)
            case EndQuorumEpochRequest():
                return quorum_epochs.handle_end_epoch(m, request, now_s)
            case FetchRequest():
                return leading.handle_fetch(m, source, request, now_s)
            case FetchSnapshotRequest():
                return snapshot_transfer.handle_fetch_snapshot(m, request, now_s)
            case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
                return voter_changes.handle(m, source, request, now_s)
            case DescribeQuorumRequest():
                return handle_describe_quorum(m, request, now_s)
            case _:
                raise TypeError(f"{type(request).__name__} is no request of the quorum")

    def on_response(self, peer: int, request: Any, response: Any, now_s: float) -> None:
        """`request` is the object that `poll` handed out. Answers that nobody waits for tell no more than an epoch."""
        m = self._member
        awaited = m.in_flight.answered(peer, request)
        answer = _answer_of(response)
        if answer is None:
            if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                m.refused_by_other_cluster(peer)
            m.notes.append(f"node {peer} refuses {type(request).__name__}: error {response.error_code}")
            m.in_flight.back_off(peer, now_s)
            return
        before = m.role
        elections.learn(m, answer.view, now_s)
        if awaited:
            self._on_answer(peer, request, answer, now_s)
        # An error that taught something was worth asking for.
        if m.role is before and answer.error not in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY):
            m.in_flight.back_off(peer, now_s)

    def _on_answer(self, peer: int, request: Any, answer: AnyAnswer, now_s: float) -> None:
        m = self._member
        match request, answer:
            case VoteRequest(), Answer():
                votes.on_vote_response(m, peer, request, answer)
            case BeginQuorumEpochRequest(), Answer():
                quorum_epochs.on_begin_response(m, peer, request, answer, now_s)
            case EndQuorumEpochRequest(), Answer():
                quorum_epochs.on_end_response(m, peer, answer)
            case FetchRequest(), FetchAnswer():
                following.on_fetch_response(m, peer, request, answer, now_s)
            case FetchSnapshotRequest(), SnapshotAnswer():
                snapshot_transfer.on_snapshot_response(m, peer, request, answer, now_s)
            case UpdateRaftVoterRequest(), UpdateAnswer():
                voter_changes.on_update_response(m, answer)
            case _:
                raise TypeError(f"{type(answer).__name__} answers no {type(request).__name__}")

    def on_disconnect(self, peer: int, refused: bool, now_s: float) -> None:
        """A request to the peer will not be answered; `refused`: nobody listens there."""
        self._member.in_flight.failed(peer, now_s)
        if refused:
            following.on_refused(self._member, peer, now_s)

    def completed_fetches(self, now_s: float) -> list[Completed]:
        """Parked requests whose time has come, with their answers; to be asked after every input and poll."""
        return leading.completed(self._member, now_s) + voter_changes.completed(self._member, now_s)

    def take_notes(self) -> list[str]:
        """What an operator should read, since the last time."""
        notes = list(self._member.notes)
        self._member.notes.clear()
        return notes

    def begin_shutdown(self) -> None:
        """From now on it starts no election; a leader resigns and tells the others who should follow it (Q3)."""
        self._member.shutting_down = True

    @property
    def is_shut_down(self) -> bool:
        """Everybody knows, or somebody else leads: the process may end. Do not wait for it for ever."""
        role = self._member.role
        resigning = isinstance(role, Leader) or (isinstance(role, Resigned) and bool(role.unacknowledged))
        return self._member.shutting_down and not resigning

    def check_invariants(self) -> None:
        """What holds between any two inputs; for simulations and tests to call after each."""
        m = self._member
        assert m.role.epoch == m.election.epoch >= m.log.latest_epoch, (m.role, m.election, m.log.latest_epoch)
        assert m.durable_end_offset <= m.log.log_end_offset, (m.durable_end_offset, m.log.log_end_offset)
        assert m.high_watermark <= m.log.log_end_offset, (m.high_watermark, m.log.log_end_offset)
        assert m.history.latest_offset < m.log.log_end_offset, (m.history.latest_offset, m.log.log_end_offset)
        if isinstance(m.role, Leader):
            assert m.leader_id == m.key.id and m.role.voters == m.voters, (m.election, m.role)
            assert m.role.high_watermark <= m.high_watermark, (m.role, m.high_watermark)
            assert m.role.high_watermark == -1 or m.role.high_watermark > m.role.epoch_start_offset, m.role
        elif isinstance(m.role, Follower):
            assert m.leader_id == m.role.leader_id != m.key.id, (m.election, m.role)
        elif isinstance(m.role, Prospective | Candidate):
            assert m.may_stand, (m.role, m.voters)

    # --- the leader's appends ---

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """Appends one batch, whole or not at all; the last offset. Committed once the high watermark is beyond it."""
        m = self._member
        if not isinstance(m.role, Leader):
            raise NotLeader(f"node {m.key.id} does not lead the metadata quorum")
        records = [Record(timestamp=now_ms, value=value) for value in values]
        batch = encode_batch(records, base_offset=self.next_offset, leader_epoch=m.role.epoch)
        if len(batch) > m.log.config.max_batch_bytes:
            raise BatchTooLarge(len(batch), m.log.config.max_batch_bytes)
        return m.append(batch, now_ms)

    @property
    def needs_flush(self) -> bool:
        """Whether anything is in the log that is not known to be durable."""
        return self._member.durable_end_offset < self._member.log.log_end_offset

    def begin_flush(self) -> FlushTask:
        return self._member.log.begin_flush()

    def on_flushed(self, task: FlushTask, now_ms: int) -> bool:
        """The task has run: what it covers is durable here. Whether the high watermark moved."""
        self._member.log.complete_flush(task, now_ms)
        return self._on_durable()

    def _on_durable(self) -> bool:
        """More may be durable here than was counted; whether the high watermark moved."""
        m = self._member
        if isinstance(m.role, Leader) and m.role.on_durable(m.key, m.durable_end_offset):
            return m.raise_high_watermark(m.role.high_watermark)
        return isinstance(m.role, Follower) and following.follow_high_watermark(m, m.role)

    # --- replay ---

    def load_snapshot(self) -> LoadedSnapshot | None:
        """The newest snapshot; None when there is none but perhaps the one of formatting, which holds no records."""
        newest = self.log.latest_snapshot
        if newest is None or newest.end_offset == 0:
            return None
        reader = self.log.open_snapshot(newest)
        # It opens again for whoever reads the values, which may be nobody.
        reader.close()
        return LoadedSnapshot(newest, reader.head.last_contained_timestamp, reader.values())

    def committed(self, start_offset: int) -> Iterator[LogBatch]:
        """Committed batches from `start_offset` on, in order; below the log's start, load the snapshot first."""
        return self.log.batches(start_offset, self.high_watermark)

    # --- snapshots ---

    def is_snapshot_due(self, last_snapshot_ms: int, now_ms: int) -> bool:
        """By bytes or by time (Q6), and only if there is anything new to put into one."""
        config = self.log.config
        newest = self.log.latest_snapshot
        if self.high_watermark <= (0 if newest is None else newest.end_offset):
            return False
        if self._member.bytes_since_snapshot >= config.max_bytes_between_snapshots:
            return True
        return 0 < config.max_snapshot_interval_ms <= now_ms - last_snapshot_ms

    def write_snapshot(
        self, snapshot: SnapshotId, values: Iterable[bytes], *, last_contained_timestamp: int, now_ms: int
    ) -> None:
        """Blocking, on any thread."""
        self.log.write_snapshot(
            snapshot,
            values,
            last_contained_timestamp=last_contained_timestamp,
            now_ms=now_ms,
            voters=self._member.history.at(snapshot.end_offset),
        )

    def on_snapshot_written(self, snapshot: SnapshotId, now_ms: int) -> bool:
        """Whether the high watermark moved: the log rolls, and what was not durable yet is flushed before."""
        self._member.bytes_since_snapshot = 0
        self._member.history.forget_before(snapshot.end_offset)
        self.log.on_snapshot_written(snapshot, now_ms)
        self.log.clean(now_ms)
        return self._on_durable()

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)


def _answer_of(response: Any) -> AnyAnswer | None:
    """None if the response is not about the metadata log, or refuses the request as a whole."""
    match response:
        case FetchResponse():
            return fetch_answer_of(response)
        case FetchSnapshotResponse():
            return snapshot_answer_of(response)
        case VoteResponse() | BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            return answer_of(response)
        case UpdateRaftVoterResponse():
            return update_answer_of(response)
        case _:
            raise TypeError(f"{type(response).__name__} is no response of the quorum")
