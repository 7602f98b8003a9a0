"""Runs one `GroupShard`: loads it from its partition, carries out its effects, appends its records in order.

One append is under way at a time; what is decided meanwhile goes into the next batch together. So tickets settle in the
order of the log, and a busy coordinator writes fewer, larger batches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tidelog.coordinator.append_errors import NOTHING_APPENDED
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.effects import Append, CancelTimer, Decision, Respond, StartTimer, Tell, TimerKey
from tidelog.coordinator.offsets_records import KeyValue
from tidelog.coordinator.shard import GroupShard
from tidelog.core.event import EventSink
from tidelog.core.ids import TopicPartition
from tidelog.core.ports import WallClock
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch, iter_batches

log = logging.getLogger(__name__)

# Below Kafka's default max.message.bytes; a topic with a smaller one sets the limit itself.
MAX_BATCH_BYTES: Final = 900_000
BATCH_OVERHEAD: Final = 128
RECORD_OVERHEAD: Final = 32
# Until groups that could not be loaded are read again; twice as long each time.
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
# Decisions that wait for their records; beyond it new requests are turned away.
MAX_APPENDS_IN_FLIGHT: Final = 10_000

# Appends one batch; done when it is committed. ApiError when it is not, or cannot be known to be.
AppendToLog = Callable[[TopicPartition, bytes], Awaitable[object]]
# Whole batches from the start of the log to its end, in order; ApiError when this broker does not lead it.
ReadLog = Callable[[TopicPartition], AsyncIterator[Buffer]]
Decide = Callable[[GroupShard, int, int], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPorts:
    """What a shard needs of the world."""

    loop: asyncio.AbstractEventLoop
    wall_clock: WallClock
    rng: Random
    append: AppendToLog
    read: ReadLog
    on_event: EventSink
    # What the partition takes in one batch.
    max_message_bytes: Callable[[TopicPartition], int] = lambda partition: MAX_BATCH_BYTES + BATCH_OVERHEAD


class ShardRunner:
    """Lives from an election to the resignation; a reload in between makes a new shard inside it."""

    def __init__(
        self, topic_partition: TopicPartition, leader_epoch: int, config: GroupCoordinatorConfig, ports: ShardPorts
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self._config = config
        self._ports = ports
        self._codec = Codec(config.offsets_topic_compression_codec)
        self._shard = self._new_shard()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next_token = 0
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._queue: deque[Append] = deque()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._drains = False
        self._start(self._load(self._shard))

    @property
    def shard(self) -> GroupShard:
        return self._shard

    @property
    def is_full(self) -> bool:
        return self._shard.appends_in_flight >= MAX_APPENDS_IN_FLIGHT

    def submit(self, decide: Decide) -> asyncio.Future[Any]:
        """Decides at once, `decide(shard, token, now_ms)`; the future is the response to that token."""
        token = self._next_token
        self._next_token += 1
        future: asyncio.Future[Any] = self._ports.loop.create_future()
        decision = decide(self._shard, token, self._now_ms())
        self._waiting[token] = future
        self.execute(decision)
        return future

    def run(self, decide: Callable[[GroupShard, int], Decision]) -> None:
        """An event that nobody waits for."""
        self.execute(decide(self._shard, self._now_ms()))

    def execute(self, decision: Decision) -> None:
        for effect in decision.effects:
            match effect:
                case Respond():
                    future = self._waiting.pop(effect.token)
                    # Done already: its client went away, or did not want to wait as long.
                    if not future.done():
                        future.set_result(effect.response)
                case StartTimer():
                    self._start_timer(effect.key, effect.delay_ms)
                case Tell():
                    self._ports.on_event(effect.event)
                case CancelTimer():
                    timer = self._timers.pop(effect.key, None)
                    if timer is not None:
                        timer.cancel()
        if decision.append is not None:
            self._queue.append(decision.append)
            if not self._drains:
                self._drains = True
                self._start(self._drain(self._shard))

    def close(self) -> None:
        """Answers everybody who waits and stops; the log belongs to another leader now."""
        self._drop_shard()
        for task in self._tasks:
            task.cancel()

    # -- loading

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.topic_partition.partition, self._config, self._ports.rng)

    async def _load(self, shard: GroupShard, retry_s: float = FIRST_RETRY_S) -> None:
        try:
            async for buffer in self._ports.read(self.topic_partition):
                for header, records in iter_batches(buffer):
                    if header.is_transactional and not header.is_control:
                        raise WireError(f"transactional offset commits at offset {header.base_offset}")
                    if not header.is_control:
                        for record in records:
                            _replay(shard, record)
                    # A long log must not hold up everything else.
                    await asyncio.sleep(0)
        except WireError as error:
            log.error("%s: its groups are unavailable because loading failed: %s", self.topic_partition, error)
            if shard is self._shard:
                self._drop_shard()
            return
        except ApiError as error:
            # A file that the cleaner had replaced, a disk: it passes, or the leadership does. Clients hear until then
            # that groups are being loaded.
            log.warning("%s: loading its groups failed; retrying in %g s: %s", self.topic_partition, retry_s, error)
            await asyncio.sleep(retry_s)
            if shard is self._shard:
                self._reload(min(2 * retry_s, LAST_RETRY_S))
            return
        if shard is self._shard:
            self.execute(shard.finish_loading(self._now_ms()))
            log.info("loaded %d groups of %s", len(shard.groups), self.topic_partition)

    def _reload(self, retry_s: float = FIRST_RETRY_S) -> None:
        self._drop_shard()
        self._shard = self._new_shard()
        self._start(self._load(self._shard, retry_s))

    def _drop_shard(self) -> None:
        self._queue.clear()
        self._drains = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.execute(self._shard.unload(self._now_ms()))

    # -- appending

    async def _drain(self, shard: GroupShard) -> None:
        while self._queue and shard is self._shard:
            appends = self._take()
            appended = 0
            failure: ApiError | None = None
            try:
                for batch in self._encode([record for append in appends for record in append.records]):
                    await self._ports.append(self.topic_partition, batch)
                    appended += 1
            except ApiError as error:
                failure = error
            if shard is not self._shard:
                return
            if failure is None:
                for append in appends:
                    self.execute(shard.on_committed(append.ticket, self._now_ms()))
            else:
                self._fail(shard, appends, failure.code, certain=appended == 0 and failure.code in NOTHING_APPENDED)
        if shard is self._shard:
            self._drains = False

    def _fail(self, shard: GroupShard, appends: list[Append], code: ErrorCode, *, certain: bool) -> None:
        for append in appends:
            decision = shard.on_append_failed(append.ticket, code, self._now_ms())
            # A shard about to be dropped writes nothing more.
            self.execute(decision if certain else Decision(decision.effects))
        if not certain:
            log.warning(
                "%s: append failed with %s; loading its groups again from the log", self.topic_partition, code.name
            )
            self._reload()

    def _take(self) -> list[Append]:
        """The decisions that go into the next batch: one at least, more while they fit."""
        taken = [self._queue.popleft()]
        size, most = _size(taken[0].records), self._max_batch_bytes()
        while self._queue and (size := size + _size(self._queue[0].records)) <= most:
            taken.append(self._queue.popleft())
        return taken

    def _encode(self, records: list[KeyValue]) -> Iterator[bytes]:
        """One batch, or several where a decision is too large for one (a group with very many offsets deleted)."""
        now_ms = self._now_ms()
        chunk: list[Record] = []
        size, most = 0, self._max_batch_bytes()
        for key, value in records:
            record_size = _size(((key, value),))
            if chunk and size + record_size > most:
                yield encode_batch(chunk, codec=self._codec)
                chunk, size = [], 0
            chunk.append(Record(timestamp=now_ms, key=key, value=value))
            size += record_size
        yield encode_batch(chunk, codec=self._codec)

    # -- helpers

    def _max_batch_bytes(self) -> int:
        return min(MAX_BATCH_BYTES, self._ports.max_message_bytes(self.topic_partition) - BATCH_OVERHEAD)

    def _now_ms(self) -> int:
        return self._ports.wall_clock.now_ms()

    def _start_timer(self, key: TimerKey, delay_ms: int) -> None:
        running = self._timers.pop(key, None)
        if running is not None:
            running.cancel()
        self._timers[key] = self._ports.loop.call_later(delay_ms / 1000, self._on_timer, key)

    def _on_timer(self, key: TimerKey) -> None:
        del self._timers[key]
        self.execute(self._shard.on_timer(key, self._now_ms()))

    def _start(self, work: Any) -> None:
        task = self._ports.loop.create_task(work, name=f"groups {self.topic_partition}")
        self._tasks[task] = None
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A bug of ours. Nobody may wait for ever because of it, and it must be seen.
        log.error("%s: its groups are unavailable after an unexpected error", self.topic_partition, exc_info=error)
        self._drop_shard()


def _replay(shard: GroupShard, record: Record) -> None:
    if record.key is None:
        raise WireError(f"record {record.offset} has no key")
    shard.replay(record.key, record.value)


def _size(records: tuple[KeyValue, ...]) -> int:
    return sum(RECORD_OVERHEAD + len(key) + (0 if value is None else len(value)) for key, value in records)
