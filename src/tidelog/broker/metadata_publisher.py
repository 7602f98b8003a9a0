"""From the committed metadata log to images, in order, on every node: voters, observers and the active controller.

Rule C1: everybody but the active controller replays committed records only. The active controller has replayed what it
wrote when it wrote it; it leaves the deltas here, and they are published when they are committed.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.broker.quorum_shell import QuorumShell
from tidelog.core.ports import Offload, WallClock
from tidelog.metadata.compare import compare
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, Provenance
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.records import MetadataRecord, frame, unframe
from tidelog.metadata.replay import ReplayError
from tidelog.metadata.snapshot import image_records
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.wire.errors import WireError

log = logging.getLogger("tidelog.metadata")

# Called after each committed batch, in order, before the request that caused it is answered. What it raises is fatal.
MetadataListener = Callable[[ClusterImage, MetadataDelta], None]

# A long history does not cost an image for each of its batches, and does not hold the loop until its end: a broker
# makes a log for each new partition, and a member that is deaf for too long is taken for dead.
MAX_RECORDS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class _Prepared:
    last_offset: int
    delta: MetadataDelta


class MetadataPublisher:
    """Invariant: `image` is committed, holds everything below `next_offset`, and listeners have heard of it."""

    def __init__(self, quorum: QuorumShell, *, offload: Offload, wall_clock: WallClock) -> None:
        self._quorum = quorum
        self._offload = offload
        self._wall_clock = wall_clock
        self._loader = MetadataLoader()
        self._listeners: list[MetadataListener] = []
        self._prepared: deque[_Prepared] = deque()
        self._snapshotting = False
        self._last_snapshot_ms = wall_clock.now_ms()
        self.next_offset = 0
        quorum.watch(self.advance)

    @property
    def image(self) -> ClusterImage:
        return self._loader.image

    @property
    def is_caught_up(self) -> bool:
        """Whether it shows all that the leader knew to be committed when it last answered."""
        return self._quorum.raft.is_caught_up and self.next_offset >= self._quorum.raft.high_watermark

    def subscribe(self, listener: MetadataListener) -> None:
        """It hears of what is committed so far, at once, and then of every batch."""
        self._listeners.append(listener)
        if self.image is not EMPTY_IMAGE:
            listener(self.image, compare(EMPTY_IMAGE, self.image))

    # --- what the active controller leaves here ---

    def prepare(self, last_offset: int, delta: MetadataDelta) -> None:
        """Appended by this node as the leader, and replayed."""
        self._prepared.append(_Prepared(last_offset, delta))

    def forget_prepared(self) -> None:
        """The node does not lead any more: what becomes of its records, the log will tell."""
        self._prepared.clear()

    # --- publishing ---

    def advance(self) -> None:
        """Publishes what has been committed since the last time."""
        if self._quorum.failure is not None:
            return
        try:
            self._advance()
        except (WireError, ReplayError) as error:
            raise QuorumError(f"the metadata log cannot be replayed: {error}") from error
        self._maybe_snapshot()

    def _advance(self) -> None:
        raft = self._quorum.raft
        high_watermark = raft.high_watermark
        if self._prepared:
            while self._prepared and self._prepared[0].last_offset < high_watermark:
                batch = self._prepared.popleft()
                self.next_offset = batch.last_offset + 1
                # The controller writes no transactions: what it replayed is what everybody else will.
                self._loader.image = batch.delta.after
                self._publish(batch.delta)
            if self._prepared:
                return
        if self.next_offset < self._snapshot_end():
            self._load_snapshot()
        if self.next_offset < high_watermark:
            self._replay(high_watermark)

    def _snapshot_end(self) -> int:
        """Up to where a snapshot has to be loaded: the first time, and when the log begins beyond what was replayed."""
        log_start = self._quorum.raft.log.log_start_offset
        newest = self._quorum.raft.log.latest_snapshot
        if newest is None or (self.next_offset > 0 and log_start <= self.next_offset):
            return 0
        return newest.end_offset

    def _load_snapshot(self) -> None:
        loaded = self._quorum.raft.load_snapshot()
        assert loaded is not None, "a log that begins beyond 0 begins at a snapshot"
        end = loaded.snapshot.end_offset
        at = Provenance(end - 1, loaded.snapshot.epoch, loaded.last_contained_timestamp)
        delta = self._loader.load_snapshot((unframe(value) for value in loaded.values), at)
        self.next_offset = end
        self._publish(delta)

    def _replay(self, high_watermark: int) -> None:
        records: list[MetadataRecord] = []
        provenance: Provenance | None = None
        for batch in self._quorum.raft.committed(self.next_offset):
            self.next_offset = batch.last_offset + 1
            records += [unframe(value) for value in batch.values]
            # Also after a batch that is the quorum's own: a broker says by it how far it has read.
            provenance = Provenance(batch.last_offset, batch.epoch, batch.timestamp)
            if len(records) >= MAX_RECORDS_AT_ONCE:
                break
        if provenance is not None:
            self._publish(self._loader.load_batch(records, provenance))
        if self.next_offset < high_watermark:
            self._quorum.wake()

    def _publish(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            listener(self.image, delta)

    # --- snapshots (Q6) ---

    def _maybe_snapshot(self) -> None:
        if self._snapshotting or self._loader.in_transaction or self.next_offset < self._quorum.raft.high_watermark:
            return
        if self._quorum.raft.is_snapshot_due(self._last_snapshot_ms, self._wall_clock.now_ms()):
            # From now on and not from when its task begins: there may be a turn in between, and two would share a file.
            self._snapshotting = True
            self._quorum.run(self._snapshot())

    async def _snapshot(self) -> None:
        await self.write_snapshot()

    async def write_snapshot(self) -> SnapshotId:
        """A snapshot of the committed image; written off the loop, which is safe because images never change."""
        self._snapshotting = True
        try:
            now_ms = self._wall_clock.now_ms()
            image = self.image
            snapshot = SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
            await self._offload(self._write_snapshot, image, snapshot, now_ms)
            self._last_snapshot_ms = now_ms
            self._quorum.raft.on_snapshot_written(snapshot, now_ms)
        finally:
            self._snapshotting = False
        # The log rolled, and what was decided meanwhile was flushed with that.
        self._quorum.wake()
        return snapshot

    def _write_snapshot(self, image: ClusterImage, snapshot: SnapshotId, now_ms: int) -> None:
        self._quorum.raft.write_snapshot(
            snapshot,
            (frame(record) for record in image_records(image)),
            last_contained_timestamp=image.provenance.timestamp,
            now_ms=now_ms,
        )
