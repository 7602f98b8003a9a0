"""A member of the metadata quorum: elections, appends, and what is committed. Today the only voter elects itself.

The order that matters: `quorum-state` is durable before a record of its epoch is written (Q1), a record is durable
before it counts (Q4). Nothing here blocks but `quorum-state` writes; flushing is split so that it can block elsewhere.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from tidelog.quorum.control_records import (
    ControlMessage,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    encode_control,
)
from tidelog.quorum.election_state import (
    QUORUM_STATE,
    ElectionState,
    read_election_state,
    write_election_state,
)
from tidelog.quorum.errors import BatchTooLarge, NotLeader, QuorumError
from tidelog.quorum.metadata_log import LogBatch, MetadataLog, MetadataLogConfig, partition_dir
from tidelog.quorum.roles import Candidate, Leader, Role, Unattached, check_transition
from tidelog.quorum.snapshot_files import SnapshotId, list_snapshots
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, ReplicaKey, VoterSet
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log_flush import FlushTask
from tidelog.storage.ports import Disk
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.wire.records.plain import Record, encode_batch


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """Where a replay starts: everything below `snapshot.end_offset`."""

    snapshot: SnapshotId
    last_contained_timestamp: int
    values: Iterator[bytes]


class QuorumReplica:
    """Invariant: records below `high_watermark` are durable on a majority and never change."""

    def __init__(
        self,
        disk: Disk,
        key: ReplicaKey,
        log: MetadataLog,
        voters: VoterSet,
        state: ElectionState,
        *,
        voters_in_log: bool,
    ) -> None:
        self._disk = disk
        self.key = key
        self.log = log
        self.voters = voters
        self.role: Role = Unattached(max(state.epoch, log.latest_epoch))
        self._voters_in_log = voters_in_log
        newest = log.latest_snapshot
        self._bytes_since_snapshot = log.bytes_from(log.log_start_offset if newest is None else newest.end_offset)

    @classmethod
    def open(
        cls,
        disk: Disk,
        metadata_dir: str,
        *,
        node_id: int,
        directory_id: UUID,
        config: MetadataLogConfig,
        now_ms: int,
        static_voters: VoterSet | None = None,
        directory: LogDirectory | None = None,
        rng: random.Random | None = None,
    ) -> "QuorumReplica":
        """What is on disk, checked. QuorumError, one line, if this node must not take part.

        The voters are those of the log; `static_voters` (`controller.quorum.voters`) hold when it names none.
        """
        path = f"{partition_dir(metadata_dir)}/{QUORUM_STATE}"
        state = read_election_state(disk, path)
        if state is None and _has_history(disk, partition_dir(metadata_dir)):
            # It may have voted in the lost epoch; a second vote there could elect two leaders.
            raise QuorumError(
                f"{path} is missing beside a metadata log that has records: this voter may not vote again"
            )
        state = state or ElectionState(0)
        log = MetadataLog.open(
            disk, metadata_dir, config, newest_epoch=state.epoch, now_ms=now_ms, directory=directory, rng=rng
        )
        recorded, in_log = _recorded_voters(log)
        voters = recorded or static_voters
        if voters is None:
            raise QuorumError(f"{log.path} names no voters and controller.quorum.voters is not set")
        key = ReplicaKey(node_id, directory_id)
        return cls(disk, key, log, voters, state, voters_in_log=in_log)

    # --- where it stands ---

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def high_watermark(self) -> int:
        """The end of what is committed; -1 while that is not known."""
        return self.role.high_watermark if isinstance(self.role, Leader) else -1

    @property
    def next_offset(self) -> int:
        """The offset the next record will get."""
        return self.log.log_end_offset

    # --- elections ---

    def start_election(self, now_ms: int) -> None:
        """Votes for itself in the next epoch. The only voter has then won, and opens its epoch in the log."""
        if not self.voters.is_voter(self.key):
            raise QuorumError(f"node {self.key.id} is not one of the voters {list(self.voters.ids)}")
        candidate = Candidate(self.epoch + 1, self.voters, {self.key.id})
        self._become(candidate, ElectionState(candidate.epoch, voted=self.key))
        if candidate.is_elected:
            self._become_leader(candidate, now_ms)

    def _become_leader(self, candidate: Candidate, now_ms: int) -> None:
        leader = Leader(candidate.epoch, self.log.log_end_offset, self.voters)
        self._become(leader, ElectionState(leader.epoch, leader_id=self.key.id))
        messages: list[ControlMessage] = [
            # Version 0, whatever kraft.version says: Kafka 4.3's own readers know no other.
            LeaderChangeMessage(
                version=0,
                leader_id=self.key.id,
                voters=self.voters.leader_change_voters(self.voters.ids),
                granting_voters=self.voters.leader_change_voters(sorted(candidate.granted)),
            )
        ]
        if not self._voters_in_log and self.voters.kraft_version >= KRAFT_VERSION_RECONFIGURABLE:
            # Until now only the formatted snapshot at offset 0 names the voters, and no follower gets that one.
            messages += [KRaftVersionRecord(k_raft_version=self.voters.kraft_version), self.voters.to_record()]
            self._voters_in_log = True
        batch = encode_control(messages, base_offset=self.next_offset, leader_epoch=leader.epoch, timestamp=now_ms)
        self._append(batch, now_ms)

    def _become(self, role: Role, state: ElectionState) -> None:
        check_transition(self.role, role)
        write_election_state(
            self._disk,
            f"{self.log.path}/{QUORUM_STATE}",
            state,
            voter_ids=self.voters.ids,
            kraft_version=self.voters.kraft_version,
        )
        # Only now: whatever is sent or written in the new role depends on the file.
        self.role = role

    # --- the leader's appends ---

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """Appends one batch, whole or not at all; the last offset. Committed once the high watermark is beyond it."""
        if not isinstance(self.role, Leader):
            raise NotLeader(f"node {self.key.id} does not lead the metadata quorum")
        records = [Record(timestamp=now_ms, value=value) for value in values]
        batch = encode_batch(records, base_offset=self.next_offset, leader_epoch=self.role.epoch)
        if len(batch) > self.log.config.max_batch_bytes:
            raise BatchTooLarge(len(batch), self.log.config.max_batch_bytes)
        return self._append(batch, now_ms)

    def _append(self, batch: bytes, now_ms: int) -> int:
        self._bytes_since_snapshot += len(batch)
        return self.log.append(batch, now_ms)

    def begin_flush(self) -> FlushTask:
        return self.log.begin_flush()

    def on_flushed(self, task: FlushTask, now_ms: int) -> bool:
        """The task has run: what it covers is durable here. Whether the high watermark moved."""
        durable = self.log.complete_flush(task, now_ms)
        if not (isinstance(self.role, Leader) and self.role.on_durable(self.key.id, durable)):
            return False
        self.log.log.update_high_watermark(self.role.high_watermark)
        return True

    # --- replay ---

    def load_snapshot(self) -> LoadedSnapshot | None:
        """The newest snapshot; None when there is none but perhaps the one of formatting, which holds no records."""
        newest = self.log.latest_snapshot
        if newest is None or newest.end_offset == 0:
            return None
        reader = self.log.open_snapshot(newest)
        return LoadedSnapshot(newest, reader.head.last_contained_timestamp, reader.values())

    def committed(self, start_offset: int) -> Iterator[LogBatch]:
        """Committed batches from `start_offset` on, in order."""
        return self.log.batches(start_offset, self.high_watermark)

    # --- snapshots ---

    def is_snapshot_due(self, last_snapshot_ms: int, now_ms: int) -> bool:
        """By bytes or by time (Q6), and only if there is anything new to put into one."""
        config = self.log.config
        newest = self.log.latest_snapshot
        if self.high_watermark <= (0 if newest is None else newest.end_offset):
            return False
        if self._bytes_since_snapshot >= config.max_bytes_between_snapshots:
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
            voters=self.voters,
        )

    def on_snapshot_written(self, snapshot: SnapshotId, now_ms: int) -> None:
        self._bytes_since_snapshot = 0
        self.log.on_snapshot_written(snapshot, now_ms)
        self.log.clean(now_ms)

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)


def _has_history(disk: Disk, directory: str) -> bool:
    """Whether anything was ever written; a snapshot at offset 0 only tells who votes."""
    if not disk.is_dir(directory):
        return False
    logs = (name for name in disk.list_dir(directory) if name.endswith(LOG_SUFFIX))
    if any(disk.file_size(f"{directory}/{name}") for name in logs):
        return True
    return any(snapshot.end_offset for snapshot in list_snapshots(disk, directory))


def _recorded_voters(log: MetadataLog) -> tuple[VoterSet | None, bool]:
    """The last voters that the snapshot or the log name, and whether others could learn them from there."""
    voters: VoterSet | None = None
    in_log = False
    newest = log.latest_snapshot
    if newest is not None:
        reader = log.open_snapshot(newest)
        voters = reader.head.voters
        in_log = voters is not None and newest.end_offset > 0
        reader.close()
    for message in log.control_messages():
        if isinstance(message, VotersRecord):
            voters, in_log = VoterSet.from_record(message), True
    return voters, in_log
