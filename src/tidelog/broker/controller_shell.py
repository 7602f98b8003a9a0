"""The thin shell around the active controller: decide, append, flush elsewhere, commit, publish, answer (rule C1).

A decision is made and its records are written within one turn of the event loop, so decisions are in order and each
sees the one before. One flush at a time runs off the loop; whatever is decided meanwhile shares the next one. After a
flush the committed batches become images, listeners hear of them in order, and only then are the requests answered.
A disk that fails ends it: nothing more is decided, and everybody who waits is told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.failures import error_response
from tidelog.core.events import Event, EventSink
from tidelog.core.ports import Offload, WallClock
from tidelog.metadata.compare import compare
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, Provenance
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.records import MetadataRecord, frame, unframe
from tidelog.metadata.replay import ReplayError
from tidelog.metadata.snapshot import image_records
from tidelog.quorum.errors import BatchTooLarge, QuorumError
from tidelog.quorum.raft import Raft
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode, WireError

log = logging.getLogger("tidelog.controller")

# Called after each committed batch, in order, before the request that caused it is answered. What it raises is fatal.
MetadataListener = Callable[[ClusterImage, MetadataDelta], None]

# A decision that need not be one batch is cut into batches of this many records.
MAX_RECORDS_PER_BATCH: Final = 10_000
# Records written and not yet committed; beyond it new requests wait their turn.
MAX_UNCOMMITTED_RECORDS: Final = 100_000


@dataclass(slots=True)
class _Waiting:
    """A request whose records end at `last_offset` (or which had to see records up to there)."""

    last_offset: int
    answer: "asyncio.Future[Any]"
    response: Any
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Appended and replayed, not yet committed: kept so that the commit need not read and replay it again."""

    last_offset: int
    records: int
    delta: MetadataDelta


class ControllerShell:
    """Invariant: `image` is committed, and listeners have heard of it."""

    def __init__(
        self,
        quorum: Raft,
        controller: Controller,
        *,
        offload: Offload,
        wall_clock: WallClock,
        events: EventSink,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._quorum = quorum
        self._controller = controller
        self._offload = offload
        self._wall_clock = wall_clock
        self._events = events
        self._on_fatal = on_fatal
        self._loader = MetadataLoader()
        self._listeners: list[MetadataListener] = []
        self._waiting: deque[_Waiting] = deque()
        self._uncommitted: deque[_Batch] = deque()
        self._uncommitted_records = 0
        self._room = asyncio.Event()
        self._room.set()
        self._failure: BaseException | None = None
        self._closed = False
        self._committer: asyncio.Task[None] | None = None
        self._last_snapshot_ms = 0

    @property
    def image(self) -> ClusterImage:
        return self._loader.image

    def subscribe(self, listener: MetadataListener) -> None:
        """It hears of what is committed so far, at once, and then of every batch."""
        self._listeners.append(listener)
        if self.image is not EMPTY_IMAGE:
            listener(self.image, compare(EMPTY_IMAGE, self.image))

    # --- life ---

    async def start(self, bootstrap: Sequence[MetadataRecord]) -> None:
        """Elects, replays what is committed, and activates the controller. QuorumError or DiskError: do not serve.

        `bootstrap` are the first records of a new cluster, as formatting left them.
        """
        now_ms = self._wall_clock.now_ms()
        loop = asyncio.get_running_loop()
        # The only voter has won its election when the first poll returns.
        self._quorum.poll(loop.time())
        if not self._quorum.is_leader:
            voters = list(self._quorum.voters.ids)
            raise QuorumError(f"node {self._quorum.key.id} is not the one voter of the metadata log ({voters})")
        await self._flush()
        self._quorum.log.checkpoint_recovery_point()
        try:
            self._replay_committed()
        except (WireError, ReplayError) as error:
            raise QuorumError(f"the metadata log cannot be replayed: {error}") from error
        self._last_snapshot_ms = now_ms
        activation = self._controller.activate(self.image, bootstrap, loop.time())
        await self._submit(activation)

    async def stop(self) -> None:
        """Lets what was appended be committed and answered, then closes the log."""
        self._closed = True
        while self._committer is not None:
            await asyncio.wait([self._committer])
        if self._failure is None:
            try:
                self._quorum.close(self._wall_clock.now_ms())
            except DiskError as error:
                # The directory is broken: the next start recovers what was committed, or refuses.
                log.warning("the metadata log was not closed cleanly: %s", error)

    def _replay_committed(self) -> None:
        start = 0
        loaded = self._quorum.load_snapshot()
        if loaded is not None:
            start = loaded.snapshot.end_offset
            at = Provenance(start - 1, loaded.snapshot.epoch, loaded.last_contained_timestamp)
            self._publish(self._loader.load_snapshot((unframe(value) for value in loaded.values), at))
        # Many batches at once: a long history must not cost an image and a delta for each of them.
        records: list[MetadataRecord] = []
        provenance: Provenance | None = None
        for batch in self._quorum.committed(start):
            records += [unframe(value) for value in batch.values]
            provenance = Provenance(batch.last_offset, batch.epoch, batch.timestamp)
            if len(records) >= MAX_RECORDS_PER_BATCH:
                self._publish(self._loader.load_batch(records, provenance))
                records, provenance = [], None
        if provenance is not None:
            self._publish(self._loader.load_batch(records, provenance))

    # --- requests ---

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        """The controller's answer to a request, once what it decided is committed.

        A request that takes longer is answered REQUEST_TIMED_OUT; what it decided may still come to be.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._decide_and_wait(request)
        except TimeoutError:
            return error_response(request, ApiError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out."))
        except ApiError as error:
            return error_response(request, error)

    async def fence_stale_brokers(self) -> None:
        """Fences brokers that have been silent for too long; for a timer to call."""
        loop = asyncio.get_running_loop()
        while self._failure is None and not self._closed:
            decision = self._controller.fence_stale_broker(next_offset=self._quorum.next_offset, now_s=loop.time())
            if decision is None:
                return
            await self._submit(decision)

    async def _decide_and_wait(self, request: Any) -> Any:
        while not self._room.is_set():
            await self._room.wait()
        self._check_serving()
        # From here to the append nothing awaits: the offset the decision was told is the one it gets.
        loop = asyncio.get_running_loop()
        decision = self._controller.decide(request, next_offset=self._quorum.next_offset, now_s=loop.time())
        return await self._submit(decision)

    def _check_serving(self) -> None:
        if self._failure is not None or self._closed or not self._quorum.is_leader:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")

    async def _submit(self, decision: Decision[Any]) -> Any:
        for batch in _batches(decision):
            self._append(batch)
        last_offset = self._quorum.next_offset - 1
        if last_offset < self._quorum.high_watermark:
            # It changed nothing, and nothing it was based on is still open.
            self._tell(decision.events)
            return decision.response
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(last_offset, answer, decision.response, decision.events))
        if self._committer is None:
            self._start_committer()
        return await answer

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        """Written and replayed at once, so that the next decision sees it; committed later."""
        now_ms = self._wall_clock.now_ms()
        try:
            last_offset = self._quorum.append([frame(record) for record in records], now_ms)
        except BatchTooLarge as error:
            raise ApiError(ErrorCode.POLICY_VIOLATION, str(error)) from error
        except DiskError as error:
            self._fail(error)
            raise ApiError(ErrorCode.NOT_CONTROLLER, "The metadata log failed.") from error
        delta = self._controller.replay(records, Provenance(last_offset, self._quorum.epoch, now_ms))
        self._uncommitted.append(_Batch(last_offset, len(records), delta))
        self._uncommitted_records += len(records)
        if self._uncommitted_records >= MAX_UNCOMMITTED_RECORDS:
            self._room.clear()

    # --- committing ---

    async def _commit(self) -> None:
        """Runs while anybody waits. One flush covers all that was appended before it began."""
        while self._waiting and self._failure is None:
            await self._flush()
            self._publish_committed()
            await self._maybe_snapshot()

    def _committer_done(self, task: "asyncio.Task[None]") -> None:
        self._committer = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
        elif self._waiting:
            # Somebody came between its last look and now.
            self._start_committer()

    def _start_committer(self) -> None:
        self._committer = asyncio.get_running_loop().create_task(self._commit())
        self._committer.add_done_callback(self._committer_done)

    async def _flush(self) -> None:
        task = self._quorum.begin_flush()
        await self._offload(task.run)
        self._quorum.on_flushed(task, self._wall_clock.now_ms())

    def _publish_committed(self) -> None:
        high_watermark = self._quorum.high_watermark
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batch = self._uncommitted.popleft()
            self._uncommitted_records -= batch.records
            # The controller writes no transactions: what it replayed is what everybody else will.
            self._loader.image = batch.delta.after
            self._publish(batch.delta)
        if self._uncommitted_records < MAX_UNCOMMITTED_RECORDS:
            self._room.set()
        while self._waiting and self._waiting[0].last_offset < high_watermark:
            waiting = self._waiting.popleft()
            self._tell(waiting.events)
            # Cancelled: it timed out, and its answer is no longer wanted.
            if not waiting.answer.done():
                waiting.answer.set_result(waiting.response)

    def _publish(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            listener(self.image, delta)

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events(event)

    async def _maybe_snapshot(self) -> None:
        now_ms = self._wall_clock.now_ms()
        if not self._loader.in_transaction and self._quorum.is_snapshot_due(self._last_snapshot_ms, now_ms):
            await self.write_snapshot()

    async def write_snapshot(self) -> SnapshotId:
        """A snapshot of the committed image; written off the loop, which is safe because images never change."""
        now_ms = self._wall_clock.now_ms()
        image = self.image
        snapshot = SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
        await self._offload(self._write_snapshot, image, snapshot, now_ms)
        self._last_snapshot_ms = now_ms
        if self._quorum.on_snapshot_written(snapshot, now_ms):
            # The log rolled, and what was decided meanwhile was flushed with that.
            self._publish_committed()
        return snapshot

    def _write_snapshot(self, image: ClusterImage, snapshot: SnapshotId, now_ms: int) -> None:
        self._quorum.write_snapshot(
            snapshot,
            (frame(record) for record in image_records(image)),
            last_contained_timestamp=image.provenance.timestamp,
            now_ms=now_ms,
        )

    def _fail(self, error: BaseException) -> None:
        """The metadata log, or what follows from it, can no longer be trusted (C10).

        What is not committed may or may not be there after a restart, so nobody is told that it is.
        """
        if self._failure is not None:
            return
        self._failure = error
        self._controller.resign(self.image)
        self._uncommitted.clear()
        self._room.set()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, "The metadata log failed."))
        self._on_fatal(error)


def _batches(decision: Decision[Any]) -> list[Sequence[MetadataRecord]]:
    records = decision.records
    if decision.atomic or len(records) <= MAX_RECORDS_PER_BATCH:
        return [records] if records else []
    return [records[at : at + MAX_RECORDS_PER_BATCH] for at in range(0, len(records), MAX_RECORDS_PER_BATCH)]
