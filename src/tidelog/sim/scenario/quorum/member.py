"""One member of the quorum with its disk and the user of its log: a map, replayed from what is committed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.quorum.election_state import QUORUM_STATE, ElectionState, read_election_state
from tidelog.quorum.formatting import format_metadata_dir
from tidelog.quorum.metadata_log import LogBatch, MetadataLogConfig, partition_dir
from tidelog.quorum.raft import Raft
from tidelog.quorum.raft_config import RaftConfig
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voters import VoterSet
from tidelog.sim.scenario.quorum.disk import Batch, WatchedDisk
from tidelog.sim.scenario.quorum.history import State, apply_values, snapshot_values
from tidelog.sim.scenario.quorum.messages import Promise
from tidelog.storage.log_flush import FlushTask
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.records.batch import iter_headers

METADATA_DIR: Final = "/metadata"
_PARTITION_DIR: Final = partition_dir(METADATA_DIR)
_READ_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Member:
    """`raft` is None while the process is down. `incarnation` counts its starts."""

    id: int
    directory_id: UUID
    disk: WatchedDisk
    rng: random.Random
    raft: Raft | None = None
    incarnation: int = 0
    applied_offset: int = 0
    state: State = field(default_factory=dict)
    sent: list[Promise] = field(default_factory=list)
    flushing: FlushTask | None = None
    _durable: tuple[int, list[Batch]] = (-1, [])
    _stored: tuple[int, ElectionState] = (-1, ElectionState(0))

    def format(self, voters: VoterSet | None, now_s: float) -> None:
        """Once, before the first start."""
        self.disk.make_dirs(METADATA_DIR)
        self.disk.fsync_dir("/")
        format_metadata_dir(self.disk, METADATA_DIR, (), voters=voters, now_ms=wall_ms(now_s))

    def start(
        self,
        config: RaftConfig,
        log_config: MetadataLogConfig,
        static_voters: VoterSet | None,
        bootstrap: tuple[int, ...],
        now_s: float,
    ) -> None:
        self.incarnation += 1
        self.applied_offset, self.state, self.flushing = 0, {}, None
        self.raft = Raft.open(
            self.disk,
            METADATA_DIR,
            node_id=self.id,
            directory_id=self.directory_id,
            config=config,
            log_config=log_config,
            static_voters=static_voters,
            bootstrap=bootstrap,
            rng=self.rng,
            now_ms=wall_ms(now_s),
            now_s=now_s,
        )

    # --- what the invariants look at ---

    @property
    def quorum_state_path(self) -> str:
        return f"{_PARTITION_DIR}/{QUORUM_STATE}"

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return () if self.raft is None else self.raft.voters.ids

    def batches(self, start: int, end: int) -> Iterator[tuple[Batch, LogBatch]]:
        """From the batch that holds `start` up to `end`, as they stand in the running log."""
        assert self.raft is not None
        log = self.raft.log
        for content in log.batches(start, end):
            data = log.log.read(content.base_offset, _READ_BYTES, upper_bound=end, min_one=True).read()
            header = next(header for _, header in iter_headers(data, partial_tail=True))
            yield Batch(content.base_offset, content.last_offset, content.epoch, header.crc), content

    def durable_batches(self) -> list[Batch]:
        if self._durable[0] != self.disk.promises:
            self._durable = (self.disk.promises, self.disk.durable_batches(_PARTITION_DIR))
        return self._durable[1]

    def durable_snapshot_end(self) -> int:
        if not self.disk.is_dir(_PARTITION_DIR):
            return 0
        names = self.disk.list_dir(_PARTITION_DIR)
        snapshots = (SnapshotId.parse(name) for name in names if self.disk.durable_bytes(f"{_PARTITION_DIR}/{name}"))
        return max((each.end_offset for each in snapshots if each is not None), default=0)

    def durable_election_state(self) -> ElectionState:
        """What a power cut now would leave of `quorum-state`."""
        if self._stored[0] != self.disk.promises:
            alone = MemoryDisk()
            content = self.disk.durable_bytes(self.quorum_state_path)
            if content:
                alone.write_atomic("/state", content)
            self._stored = (self.disk.promises, read_election_state(alone, "/state") or ElectionState(0))
        return self._stored[1]

    # --- the user of the log ---

    def apply_committed(self) -> None:
        """Replays what is committed and not applied yet; behind the log's start, from the snapshot."""
        raft = self.raft
        assert raft is not None
        if self.applied_offset < raft.log.log_start_offset or (self.applied_offset == 0 and raft.log.latest_snapshot):
            loaded = raft.load_snapshot()
            if loaded is not None and loaded.snapshot.end_offset > self.applied_offset:
                self.state = {}
                apply_values(self.state, loaded.values)
                self.applied_offset = loaded.snapshot.end_offset
        if raft.high_watermark <= self.applied_offset:
            return
        for batch in raft.committed(self.applied_offset):
            apply_values(self.state, batch.values)
            self.applied_offset = batch.last_offset + 1

    def write_snapshot(self, now_s: float) -> SnapshotId | None:
        """Of everything applied; None if there is nothing new to put into one."""
        raft = self.raft
        assert raft is not None
        newest = raft.log.latest_snapshot
        if self.applied_offset <= (0 if newest is None else newest.end_offset):
            return None
        last = next(batch for batch, _ in self.batches(self.applied_offset - 1, self.applied_offset))
        snapshot = SnapshotId(self.applied_offset, last.epoch)
        now_ms = wall_ms(now_s)
        raft.write_snapshot(snapshot, snapshot_values(self.state), last_contained_timestamp=now_ms, now_ms=now_ms)
        raft.on_snapshot_written(snapshot, now_ms)
        return snapshot


def wall_ms(now_s: float) -> int:
    """The wall clock of the simulated world."""
    return 1_700_000_000_000 + round(now_s * 1000)
