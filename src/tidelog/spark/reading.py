"""What a task does: fetches a range of offsets and gives it as Arrow batches (S4, S5, S7).

One thread fetches the next answer while the other decodes the last: memory is two answers, however long the range.
Every fetch says in which epoch the batch before it was, so that a leader with another history refuses it.
"""

import asyncio
import logging
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.client.client import Client, one_line
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, raise_for
from tidelog.client.offsets import EARLIEST, LATEST, IsolationLevel, is_in_own_log, list_offsets
from tidelog.core.ids import ZERO_UUID
from tidelog.kernel import Decoder
from tidelog.spark.agreement import AGREED_WITHIN_S, agreed
from tidelog.spark.brokers import epoch_ends, refuse_stale
from tidelog.spark.connections import CONNECTIONS, KeptClient, Running
from tidelog.spark.fetch_size import FetchSize
from tidelog.spark.history import DataLoss
from tidelog.spark.offsets import NO_EPOCH, is_another
from tidelog.spark.options import SourceOptions
from tidelog.spark.ranges import OffsetRange
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.wire.records.batch import BatchHeader, iter_headers

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tidelog.spark")

# Half of it costs a little more CPU for rows of 1 KB, and Spark's worker and the JVM hold each of them as well.
_BATCH_BYTES: Final = 8 * 1024 * 1024
_AGAIN_S: Final = 0.5
_FIRST_VERSION_WITH_TOPIC_ID: Final = 13
# One after the other, and a broker takes `fetch.max.wait.ms` for each.
_EMPTY_ANSWERS: Final = 10


@dataclass(frozen=True, slots=True)
class _Answer:
    records: Buffer
    aborted: list[AbortedTransaction] | None


@dataclass(frozen=True, slots=True)
class _Skip:
    """Records are gone, and the query goes on without them."""

    to: int


class _End:
    """Nothing more comes."""


class _Followed(NamedTuple):
    """Of an answer: what of it counts, where the next fetch begins and in which epoch that was, and what stops it. Its
    whole batches have `size` bytes and begin at `base_offset`.
    """

    records: Buffer
    position: int
    epoch: int
    base_offset: int
    size: int
    later: BatchHeader | None


def read(options: SourceOptions, wanted: OffsetRange) -> "Iterator[pa.RecordBatch]":
    """The records of a range. DataLoss if they are not there any more, unless the user takes that."""
    decoder = Decoder(
        wanted.tp.topic,
        wanted.tp.partition,
        wanted.start,
        wanted.end,
        headers=options.include_headers,
        epoch=options.include_epoch,
        max_bytes=_BATCH_BYTES,
    )
    fetching = _Fetching(options, wanted)
    fetching.start()
    try:
        while not decoder.done:
            item = fetching.next()
            if isinstance(item, _End):
                break
            if isinstance(item, _Skip):
                decoder.next_offset = max(decoder.next_offset, item.to)
                continue
            yield from decoder.feed(item.records, item.aborted)
        yield from decoder.flush()
    finally:
        fetching.stop()


# With those words the leader, or who was asked for it, says that there is no such partition.
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class _Gone(Exception):
    """The topic is not there any more, or has another id than when the range was planned and other records. Made with
    which of the two.
    """


class _Fetching:
    """The thread that fetches. Invariant: after `stop` it ends by itself, whatever it waits for."""

    def __init__(self, options: SourceOptions, wanted: OffsetRange) -> None:
        self._options = options
        self._wanted = wanted
        self._answers: queue.Queue[_Answer | _Skip | _End | BaseException] = queue.Queue()
        self._taken = asyncio.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Running | None = None

    def start(self) -> None:
        self._running = CONNECTIONS.start(self._run())

    def next(self) -> _Answer | _Skip | _End:
        """The one before it is not looked at any more."""
        item = self._answers.get()
        if isinstance(item, _Answer) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._taken.release)
        if isinstance(item, BaseException):
            raise item
        return item

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    async def _give(self, answer: _Answer) -> None:
        """Returns when it is being decoded. Two answers are in memory then, this one and the next, in the two buffers
        that the connection keeps. A third would be allocated each time, and clearing it costs as much as receiving.
        """
        self._answers.put(answer)
        await self._taken.acquire()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with CONNECTIONS.client(self._options.access) as kept:
                await self._fetch_all(kept)
        except asyncio.CancelledError:
            # Only `stop` cancels, and then nobody waits for an answer.
            raise
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that reads
            self._answers.put(error)
        else:
            self._answers.put(_End())

    async def _fetch_all(self, kept: KeptClient) -> None:
        """Until the range is fetched, or as far as it can be."""
        options, wanted, client = self._options, self._wanted, kept.client
        self._forget_if_older(client)
        size = FetchSize(options.fetch_bytes, kept.sizes.get(wanted.tp, 0.0))
        loop = asyncio.get_running_loop()
        position, epoch, moved_at = wanted.start, wanted.epoch, loop.time()
        empty = 0
        while position < wanted.end:
            is_late = loop.time() - moved_at > options.poll_timeout_ms / 1000
            try:
                data, leader = await self._fetch(client, position, epoch, size)
            except _Gone as gone:
                self._lost(position, wanted.end, str(gone))
                return
            diverging = data.diverging_epoch
            if diverging.epoch >= 0:
                if diverging.end_offset < position:
                    self._lost(
                        diverging.end_offset,
                        position,
                        f"they were read up to leader epoch {epoch}, the leader has epoch {diverging.epoch} up to "
                        f"offset {diverging.end_offset}",
                    )
                # Below it nothing differs, whichever epochs the leader knows.
                epoch = -1
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                position, epoch = await self._out_of_range(client, position, is_late=is_late), -1
                continue
            found = self._followed(data.records or b"", position, epoch)
            has_moved = found.position > position
            if has_moved:
                size.received(found.size, found.position - found.base_offset)
                kept.remember_size(wanted.tp, size.bytes_per_offset)
            if has_moved:
                committed = options.isolation is IsolationLevel.READ_COMMITTED
                await self._give(_Answer(found.records, list(data.aborted_transactions or ()) if committed else None))
                position, epoch, moved_at, empty = found.position, found.epoch, loop.time(), 0
            if found.later is not None:
                now = found.later.partition_leader_epoch
                why = f"the plan had leader epoch {wanted.end_epoch} as the newest, and the records are of epoch {now}"
                self._lost(max(found.later.base_offset, position), wanted.end, why)
                return
            if has_moved:
                continue
            end = self._visible_end(data)
            empty += not data.records
            is_empty = end >= wanted.end and not data.records
            # A broker that gets old segments from elsewhere answers with nothing while it waits, and is given its time.
            if is_empty and (empty >= _EMPTY_ANSWERS or await self._has_looked(leader, position)):
                # Nothing but holes up to there.
                return
            if is_late and (end < wanted.end or data.records):
                if end < wanted.end:
                    await self._raise_if_there(client, end)
                why = f"the log ends at {end} and nothing has come for {options.poll_timeout_ms} ms"
                self._lost(position, wanted.end, why)
                return

    def _forget_if_older(self, client: Client) -> None:
        """What a kept client knows of the topic, if it is from before the range was planned."""
        wanted = self._wanted
        topic = client.metadata.topics.get(wanted.tp.topic)
        partition = client.metadata.partition(wanted.tp.topic, wanted.tp.partition)
        if topic is None or partition is None:
            return
        epoch = max(wanted.epoch, wanted.end_epoch)
        if is_another(wanted.topic_id, topic.topic_id) or 0 <= partition.leader_epoch < epoch:
            client.forget_leaders()

    def _followed(self, records: Buffer, position: int, epoch: int) -> _Followed:
        """How far an answer leads. Not past a batch of a later epoch than those that the range was planned with: it
        would be another history's, which the next micro-batch reads from where the two part.
        """
        most, end = self._wanted.end_epoch, self._wanted.end
        base_offset, size = position, 0
        for at, header in iter_headers(records, partial_tail=True):
            if NO_EPOCH < most < header.partition_leader_epoch and header.base_offset < end:
                return _Followed(memoryview(records)[:at], position, epoch, base_offset, size, header)
            if size == 0:
                base_offset = min(header.base_offset, position)
            position, epoch = header.next_offset, header.partition_leader_epoch
            size = at + header.size_in_bytes
        return _Followed(records, position, epoch, base_offset, size, None)

    def _visible_end(self, data: PartitionData) -> int:
        committed = self._options.isolation is IsolationLevel.READ_COMMITTED
        return data.last_stable_offset if committed else data.high_watermark

    async def _has_looked(self, leader: Connection, position: int) -> bool:
        """Asked after the answer: a log of its own that begins at or before `position` now did so then."""
        try:
            return await is_in_own_log(leader, self._wanted.tp, position)
        except (ApiError, ClientError) as error:
            log.info("%s: cannot find out whether offset %d is a hole: %s", self._wanted.tp, position, one_line(error))
            return False

    async def _fetch(
        self, client: Client, position: int, epoch: int, size: FetchSize
    ) -> tuple[PartitionData, Connection]:
        """What the leader has there, and the connection to it."""
        options, tp = self._options, self._wanted.tp

        async def attempt() -> tuple[PartitionData, Connection]:
            leader = await client.leader_of(tp.topic, tp.partition)
            known = client.metadata.topics[tp.topic]
            if is_another(self._wanted.topic_id, known.topic_id):
                # As one broker says, which may be cut off and have the topic as it was before.
                await self._raise_if_gone(client)
                # From here on with what they said: to begin again is to ask somebody else, who may be that one again.
                leader = await client.leader_of(tp.topic, tp.partition)
                known = client.metadata.topics[tp.topic]
                if is_another(self._wanted.topic_id, known.topic_id):
                    raise_for(ErrorCode.INCONSISTENT_TOPIC_ID, what=str(tp))
            # Of a leader older than the end of the range too: it may have there what was given up since.
            refuse_stale(client.metadata, {tp: max(epoch, self._wanted.end_epoch)})
            connection = await client.broker(leader)
            max_bytes = size.ask(self._wanted.end - position)
            asked = FetchPartition(
                partition=tp.partition,
                fetch_offset=position,
                last_fetched_epoch=epoch,
                partition_max_bytes=max_bytes,
            )
            request = FetchRequest(
                max_wait_ms=options.fetch_wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                isolation_level=options.isolation,
                topics=[FetchTopic(topic=tp.topic, topic_id=known.topic_id, partitions=[asked])],
            )
            has_id = known.topic_id != ZERO_UUID
            version = connection.version_of(FetchRequest, at_most=None if has_id else _FIRST_VERSION_WITH_TOPIC_ID - 1)
            while True:
                answer = await connection.request(request, FetchResponse, version=version)
                raise_for(answer.error_code, what=f"fetch of {tp}")
                for topic in answer.responses:
                    for data in topic.partitions:
                        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                            raise_for(data.error_code, what=f"fetch of {tp} at offset {position}")
                        return data, connection
                if answer.throttle_time_ms <= 0:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer to a fetch lacks {tp}")
                # Over its quota a reader is answered with nothing, and with how long to stay away.
                await asyncio.sleep(answer.throttle_time_ms / 1000)

        timeout_s = options.poll_timeout_ms / 1000
        try:
            return await client.retrying(attempt, timeout_s=timeout_s)
        except ApiError as error:
            if error.code in _UNKNOWN:
                # For as long as there was time. One broker that is cut off would say so too.
                may_take_s = min(timeout_s, AGREED_WITHIN_S)
                await client.retrying(lambda: self._raise_if_gone(client), timeout_s=may_take_s)
            raise

    async def _raise_if_gone(self, client: Client) -> None:
        """_Gone if the brokers say together that the partition no longer exists, or one of another topic."""
        tp = self._wanted.tp
        ids = await agreed(client, [tp.topic])
        if any(is_another(self._wanted.topic_id, topic_id) for topic_id in ids.values()):
            raise _Gone("the topic was recreated")
        if tp not in ids:
            raise _Gone("the topic was deleted" if not ids else "the partition no longer exists")

    async def _raise_if_there(self, client: Client, visible_end: int) -> None:
        """ApiError if the leader has all up to the end of the range, and gives it up to `visible_end` only: elected
        after the range was planned, it does not know that all of it is committed, and with too few in sync may not
        learn it for long. Nothing of it is lost.
        """
        tp, end, epoch = self._wanted.tp, self._wanted.end, self._wanted.end_epoch
        if epoch == NO_EPOCH:
            return
        found = await client.retrying(lambda: epoch_ends(client, {tp: epoch}))
        if found[tp].end_offset >= end:
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the leader of {tp} has the records up to offset {end}, but reports only those up to {visible_end}: "
                f"it does not know yet that the rest is committed",
            )

    async def _out_of_range(self, client: Client, position: int, *, is_late: bool) -> int:
        """Where to go on."""
        tp, end = self._wanted.tp, self._wanted.end
        begins = (await list_offsets(client, {tp: EARLIEST}))[tp].offset
        if position < begins:
            # Retention, or DeleteRecords, was faster.
            self._lost(position, min(begins, end), f"the log begins at {begins}")
            self._answers.put(_Skip(begins))
            return begins
        ends = (await list_offsets(client, {tp: LATEST}))[tp].offset
        if not is_late:
            # A leader that has been elected a moment ago, or one that is no leader any more.
            await asyncio.sleep(_AGAIN_S)
            await client.refresh([tp.topic])
            return position
        if position <= ends:
            raise_for(ErrorCode.OFFSET_OUT_OF_RANGE, what=f"fetch of {tp} at offset {position}, of a log up to {ends}")
        self._lost(ends, end, f"the log ends at {ends}")
        return end

    def _lost(self, first: int, end: int, reason: str) -> None:
        """Of [first, end). Returns if the user takes it, and it is said."""
        text = f"{self._wanted.tp}: offsets {first} to {end - 1} are lost to this query: {reason}"
        if self._options.fail_on_data_loss:
            raise DataLoss(text)
        log.warning("%s", text)
