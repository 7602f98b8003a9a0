"""The thin shell around the active controller: decide, append, wait for the commit, answer (rule C1).

A decision is made and its records are appended within one turn of the event loop, so decisions are in order and each
sees the one before. The quorum commits them, the publisher tells everybody on this node, and only then are the requests
answered. A node that comes to lead the quorum is the active controller once it has replayed all that is committed; one
that leads no more goes back to the committed image, and whoever waits is told to ask the next one.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.broker.controller_timers import ControllerTimers, Decide, Dial
from tidelog.broker.metadata_publisher import MetadataPublisher
from tidelog.broker.quorum_shell import QuorumShell
from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.failures import error_response
from tidelog.controller.fast_fence import BrokerProcess
from tidelog.core.events import ControllerActivated, ControllerResigned, Event, EventSink
from tidelog.core.ports import WallClock
from tidelog.metadata.image import ClusterImage, Provenance
from tidelog.metadata.records import MetadataRecord, NoOpRecord, frame
from tidelog.quorum.errors import BatchTooLarge
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

# A decision that need not be one batch is cut into batches of this many records.
MAX_RECORDS_PER_BATCH: Final = 10_000
# Records written and not yet committed; beyond it new requests wait their turn.
MAX_UNCOMMITTED_RECORDS: Final = 100_000
# How long a stop waits for what was decided to be committed.
_COMMIT_S: Final = 5.0
# What the quorum itself answers, and not the controller on top of it.
QUORUM_REQUESTS: Final = (DescribeQuorumRequest, AddRaftVoterRequest, RemoveRaftVoterRequest)


@dataclass(slots=True)
class _Waiting:
    """A request whose records end at `last_offset` (or which had to see records up to there)."""

    last_offset: int
    answer: "asyncio.Future[Any]"
    response: Any
    events: Sequence[Event]


class ControllerShell:
    """Invariant: while `active_epoch` is set, the quorum's leader in that epoch is this node as far as it knows."""

    def __init__(
        self,
        quorum: QuorumShell,
        publisher: MetadataPublisher,
        controller: Controller,
        *,
        bootstrap: Sequence[MetadataRecord],
        wall_clock: WallClock,
        events: EventSink,
        dial: Dial,
    ) -> None:
        self._quorum = quorum
        self._publisher = publisher
        self._controller = controller
        self._bootstrap = bootstrap
        self._wall_clock = wall_clock
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._uncommitted_records = 0
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self.active_epoch: int | None = None
        self._timers = ControllerTimers(self._loop, controller, self._decide, self._write_noop, dial, quorum.fail)
        quorum.watch(self._look)

    @property
    def is_active(self) -> bool:
        return self.active_epoch is not None and self._is_leading() and not self._closed

    @property
    def image(self) -> ClusterImage:
        return self._publisher.image

    async def stop(self) -> None:
        """Decides nothing more, and lets what was decided be committed and answered while the quorum still runs."""
        self._closed = True
        self._timers.stop()
        if self._waiting and self.active_epoch is not None:
            await asyncio.wait([self._waiting[-1].answer], timeout=_COMMIT_S)

    # --- requests ---

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        """The controller's answer to a request, once what it decided is committed.

        A request that takes longer is answered REQUEST_TIMED_OUT; what it decided may still come to be.
        """
        if isinstance(request, QUORUM_REQUESTS):
            return await self._quorum.receive(-1, request)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._decide_and_wait(request)
        except TimeoutError:
            text = "The request timed out: the metadata quorum did not commit it in time."
            return error_response(request, ApiError(ErrorCode.REQUEST_TIMED_OUT, text))
        except ApiError as error:
            return error_response(request, error)

    async def _decide_and_wait(self, request: Any) -> Any:
        while not self._room.is_set():
            await self._room.wait()
        self._check_serving()
        # From here to the append nothing awaits: the offset the decision was told is the one it gets.
        decision = self._controller.decide(request, next_offset=self._quorum.raft.next_offset, now_s=self._loop.time())
        response = await self._submit(decision)
        if isinstance(request, IncrementalAlterConfigsRequest):
            self._timers.elect_unclean_soon()
        return response

    def _check_serving(self) -> None:
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")

    async def _decide(self, decide: Decide) -> Decision[Any] | None:
        """For timers: a decision nobody asked for. None also if this node does not decide any more."""
        if not self.is_active:
            return None
        decision = decide(next_offset=self._quorum.raft.next_offset, now_s=self._loop.time())
        if decision is not None:
            await self._submit(decision)
        return decision

    async def _submit(self, decision: Decision[Any]) -> Any:
        for batch in _batches(decision):
            self._append(batch)
        if decision.records:
            self._timers.wrote()
        self._timers.changed()
        last_offset = self._quorum.raft.next_offset - 1
        if last_offset < self._publisher.next_offset:
            # It changed nothing, and nothing it was based on is still open.
            self._tell(decision.events)
            return decision.response
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(_Waiting(last_offset, answer, decision.response, decision.events))
        return await answer

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        """Written and replayed at once, so that the next decision sees it; committed later."""
        now_ms = self._wall_clock.now_ms()
        try:
            last_offset = self._quorum.append([frame(record) for record in records], now_ms)
        except BatchTooLarge as error:
            raise ApiError(ErrorCode.POLICY_VIOLATION, str(error)) from error
        except DiskError as error:
            self._quorum.fail(error)
            raise ApiError(ErrorCode.NOT_CONTROLLER, "The metadata log failed.") from error
        delta = self._controller.replay(records, Provenance(last_offset, self._quorum.raft.epoch, now_ms))
        self._publisher.prepare(last_offset, delta)
        self._uncommitted_records = last_offset + 1 - self._publisher.next_offset
        if self._uncommitted_records >= MAX_UNCOMMITTED_RECORDS:
            self._room.clear()

    async def _write_noop(self) -> None:
        """An idle log tells nobody how far behind anybody is; a quorum of one has nobody to tell."""
        if self.is_active and not self._waiting and len(self._quorum.raft.voters.ids) > 1:
            await self._submit(Decision(response=None, records=[NoOpRecord()]))

    # --- what the fast fence hears (C2) ---

    def heartbeat_heard(self, connection: Hashable, broker_id: int, epoch: int) -> None:
        """A heartbeat that was not refused came over this connection."""
        self._controller.fast_fence.heard(connection, BrokerProcess(broker_id, epoch))

    def connection_lost(self, connection: Hashable) -> None:
        """It ended, not by us."""
        self._controller.fast_fence.connection_lost(connection, self._loop.time())
        if self.is_active:
            self._timers.changed()

    def connection_closed(self, connection: Hashable) -> None:
        """We ended it: that says nothing of the broker."""
        self._controller.fast_fence.connection_closed(connection)

    # --- the quorum's turns ---

    def _is_leading(self) -> bool:
        raft = self._quorum.raft
        return raft.is_leader and raft.epoch == self.active_epoch and self._quorum.failure is None

    def _look(self) -> None:
        """After every turn of the quorum, when the publisher has done its part."""
        if self.active_epoch is not None and not self._is_leading():
            self._resign()
        raft = self._quorum.raft
        may_lead = self.active_epoch is None and not self._closed and self._quorum.failure is None
        if may_lead and raft.is_leader and raft.is_caught_up and self._publisher.next_offset == raft.next_offset:
            self._activate(raft.epoch)
        self._answer()

    def _activate(self, epoch: int) -> None:
        self.active_epoch = epoch
        decision = self._controller.activate(self.image, self._bootstrap, self._loop.time())
        self._events(ControllerActivated(epoch=epoch))
        for batch in _batches(decision):
            self._append(batch)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(_Waiting(self._quorum.raft.next_offset - 1, answer, None, decision.events))
        self._timers.start()

    def _resign(self) -> None:
        """What is not committed may still come to be, or never: nobody is told either."""
        assert self.active_epoch is not None
        self._events(ControllerResigned(epoch=self.active_epoch))
        self.active_epoch = None
        self._timers.stop()
        self._publisher.forget_prepared()
        self._controller.resign(self.image)
        self._uncommitted_records = 0
        self._room.set()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(
                    ApiError(ErrorCode.NOT_CONTROLLER, "Another node is now the active controller.")
                )
                # Of a decision that no request waits for.
                each.answer.exception()

    def _answer(self) -> None:
        published = self._publisher.next_offset
        self._uncommitted_records = max(0, self._quorum.raft.next_offset - published)
        if self._uncommitted_records < MAX_UNCOMMITTED_RECORDS:
            self._room.set()
        while self._waiting and self._waiting[0].last_offset < published:
            waiting = self._waiting.popleft()
            self._tell(waiting.events)
            # Cancelled: it timed out, and its answer is no longer wanted.
            if not waiting.answer.done():
                waiting.answer.set_result(waiting.response)

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events(event)


def _batches(decision: Decision[Any]) -> list[Sequence[MetadataRecord]]:
    records = decision.records
    if decision.atomic or len(records) <= MAX_RECORDS_PER_BATCH:
        return [records] if records else []
    return [records[at : at + MAX_RECORDS_PER_BATCH] for at in range(0, len(records), MAX_RECORDS_PER_BATCH)]
