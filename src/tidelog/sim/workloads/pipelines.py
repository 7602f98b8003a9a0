"""An idempotent producer with several batches in flight, as librdkafka's and Java's are.

`tidelog.client.producer` waits for every batch and takes a new id when it does not know what became of one, so that all
it ever repeats is the last batch. Applications send on: up to five batches of a partition are under way on one
connection, each with its sequence, and when one fails all that is not acknowledged is sent again in order, under the
same id, to whoever leads now. Most of it may have been written already.
"""

import asyncio
import random
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.client.client import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError, ConnectionFailed, raise_for
from tidelog.client.producer import ACKS_ALL, UNKNOWN_OFFSET
from tidelog.core.ids import TopicPartition
from tidelog.sim.trace import CLIENT
from tidelog.sim.workloads.office import Office
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records.batch import stamp_producer
from tidelog.wire.records.plain import Record, encode_batch

IN_FLIGHT: Final = 5
"""As many as a broker remembers, and as clients allow (`max.in.flight.requests.per.connection`)."""
REQUEST_S: Final = 1.5
"""How long an answer is waited for: shorter than a follower may stay in the ISR that does not fetch, so that what is
written and waits for it is sent again."""
MARGIN_S: Final = 0.5
"""For the way there and back."""
FIRST_BACKOFF_S: Final = 0.02
MAX_BACKOFF_S: Final = 0.5
FIRST_VERSION_WITH_TOPIC_ID: Final = 13
# Not the constants of the wire package: what is checked here must not be wrong in the same way.
SEQUENCES: Final = 1 << 31
LATE: Final = 0.04
"""How likely an answer is followed by a request from before."""
LATE_AMONG: Final = 12
"""The last batches that may come late: a leader remembers some of them, and others no more."""
NEAR_THE_LAST: Final = 60
"""By how many records at most a writer that is to come past the last sequence begins before it."""

_OUT_OF_SEQUENCE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class LostByElection(ClientError):
    """The leader lacks what was acknowledged before, as it may after an unclean election."""


@dataclass(slots=True, eq=False)
class _Batch:
    data: bytearray
    records: int
    since_s: float
    written: asyncio.Future[int]


@dataclass(slots=True, eq=False)
class _Pipe:
    """One partition.

    Invariant: `window` holds at most `IN_FLIGHT` batches, their sequences follow each other, and the first of them is
    not acknowledged. So a broker that has written that one has written at most four after it, and remembers it.
    """

    partition: TopicPartition
    next_sequence: int
    begun_in: int
    """The era in which its epoch began."""
    epoch: int = 0
    """Of the producer, as it counts it for this partition."""
    era: int = -1
    """In which a leader acknowledged something of this epoch last, and all before it; -1 as long as none did."""
    queue: deque[_Batch] = field(default_factory=deque)
    window: deque[_Batch] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was queued or answered."""
    pump: asyncio.Task[None] | None = None
    past: deque[_Batch] = field(default_factory=lambda: deque(maxlen=LATE_AMONG))
    """What was acknowledged or given up last."""
    leader_epoch: int = -1
    """The newest that was heard of. Older metadata names a leader that may lack what a newer one has written."""
    stale: bool = True
    """Whether to ask who leads."""
    refused_by: tuple[int, int] | None = None
    """The leader that refused the first batch for its sequence when it was last sent, and its epoch."""


@dataclass(slots=True, eq=False)
class _Round:
    """What is sent to one leader on one connection, until something fails and the rest is answered."""

    leader: int
    connection: Connection
    requests: list[asyncio.Task[None]] = field(default_factory=list)
    under_way: int = 0
    failed: dict[_Batch, ApiError | ClientError] = field(default_factory=dict)


class PipelinedProducer:
    """Batches of one partition are written once and in order, whatever had to be sent how often.

    A batch that waits for longer than `patience_s` is given up with all that were sent after it, and so are those whose
    predecessors an unclean election has taken. Then the producer goes on in the next epoch of its id, from sequence 0,
    as Java's does.
    """

    def __init__(self, office: Office, client: Client, rng: random.Random, *, patience_s: float) -> None:
        self._office = office
        self._client = client
        self._rng = rng
        self._patience_s = patience_s
        self._pipes: dict[TopicPartition, _Pipe] = {}
        self._producer_id: int | None = None
        self._id_lock = asyncio.Lock()

    def room(self, topic: str, partition: int) -> int:
        """How many batches of a partition would be sent at once."""
        pipe = self._pipes.get(TopicPartition(topic, partition))
        return IN_FLIGHT if pipe is None else max(0, IN_FLIGHT - len(pipe.window) - len(pipe.queue))

    async def send(self, topic: str, partition: int, records: Sequence[Record]) -> int:
        """Writes one batch and returns the offset of its first record, if that was told."""
        tp = TopicPartition(topic, partition)
        loop = asyncio.get_running_loop()
        pipe = self._pipes.get(tp)
        if pipe is None:
            # Nobody has to begin at 0 where nothing is known of a producer (P4), and no seed lasts for 2^31 records.
            near = self._rng.random() < 0.5
            first = SEQUENCES - self._rng.randint(1, NEAR_THE_LAST) if near else 0
            pipe = self._pipes[tp] = _Pipe(tp, first, self._office.watch.era_of(tp))
        batch = _Batch(bytearray(encode_batch(records)), len(records), loop.time(), loop.create_future())
        pipe.queue.append(batch)
        pipe.news.set()
        if pipe.pump is None or pipe.pump.done():
            pipe.pump = loop.create_task(self._pump(pipe), name=f"producer of {tp}")
        return await batch.written

    async def _pump(self, pipe: _Pipe) -> None:
        backoff = FIRST_BACKOFF_S
        try:
            while pipe.queue or pipe.window:
                try:
                    await self._send_all(pipe)
                    backoff = FIRST_BACKOFF_S
                except LostByElection as error:
                    self._give_up(pipe, error)
                except (ApiError, ClientError) as error:
                    pipe.stale = True
                    first = pipe.window[0] if pipe.window else pipe.queue[0]
                    if asyncio.get_running_loop().time() - first.since_s > self._patience_s:
                        self._give_up(pipe, error)
                    else:
                        await asyncio.sleep(backoff * self._rng.uniform(0.8, 1.2))
                        backoff = min(2 * backoff, MAX_BACKOFF_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits for the batches has to hear of it
            for batch in (*pipe.window, *pipe.queue):
                if not batch.written.done():
                    batch.written.set_exception(error)

    async def _send_all(self, pipe: _Pipe) -> None:
        """Sends all that is not acknowledged, and what comes meanwhile. Raises what the first of the batches met."""
        producer_id = await self._id()
        now = await self._leader_of(pipe)
        unsent = deque(batch for batch in pipe.window if not batch.written.done())
        while True:
            pipe.news.clear()
            if not now.failed:
                unsent.extend(self._take(pipe, producer_id))
                while unsent:
                    self._begin(pipe, now, self._send_one(pipe, now, unsent.popleft()))
            if not now.under_way:
                break
            await pipe.news.wait()
        for request in now.requests:
            # It has ended, and what no fault explains ends the producer.
            request.result()
        if now.failed:
            # Those before the first that is in the window are acknowledged.
            error = now.failed.get(pipe.window[0]) if pipe.window else None
            self._judge(pipe, now.leader, error)
            raise error or next(iter(now.failed.values()))

    @staticmethod
    def _begin(pipe: _Pipe, now: _Round, request: Coroutine[Any, Any, None]) -> None:
        async def ask() -> None:
            try:
                await request
            finally:
                now.under_way -= 1
                pipe.news.set()

        now.under_way += 1
        now.requests.append(asyncio.get_running_loop().create_task(ask(), name=f"produce to {pipe.partition}"))

    def _take(self, pipe: _Pipe, producer_id: int) -> list[_Batch]:
        """Those that may be sent now, with their sequences.

        The first of an epoch goes alone: a leader that knows nothing of a producer takes whatever comes first, also the
        second batch if it had to refuse the first for another reason.
        """
        taken: list[_Batch] = []
        while pipe.queue and len(pipe.window) < (1 if pipe.era < 0 else IN_FLIGHT):
            batch = pipe.queue.popleft()
            stamp_producer(batch.data, producer_id, pipe.epoch, pipe.next_sequence)
            pipe.next_sequence = (pipe.next_sequence + batch.records) % SEQUENCES
            pipe.window.append(batch)
            taken.append(batch)
        return taken

    async def _send_one(self, pipe: _Pipe, now: _Round, batch: _Batch) -> None:
        try:
            offset = await self._produce(now.connection, pipe.partition, batch)
        except (ApiError, ClientError) as error:
            now.failed[batch] = error
        else:
            batch.written.set_result(offset)
            while pipe.window and pipe.window[0].written.done():
                pipe.past.append(pipe.window.popleft())
            watch = self._office.watch
            # Else it was one from before an unclean election who has not heard of that.
            if pipe.leader_epoch >= watch.first_epoch_of(pipe.partition):
                # Who knew nothing of this producer may have taken a later batch, and refused those before it for
                # another reason: then it does not take them any more.
                if batch not in pipe.window:
                    pipe.era = watch.era_of(pipe.partition)
                if pipe.past and self._rng.random() < LATE:
                    self._begin(pipe, now, self._send_late(pipe, now, self._rng.choice(pipe.past)))
            else:
                pipe.era = max(pipe.era, 0)

    async def _send_late(self, pipe: _Pipe, now: _Round, batch: _Batch) -> None:
        """What the network held up since an earlier connection, and nobody waits for any more. A leader that knows the
        producer knows the batch, or refuses it, also if it is of an earlier epoch.
        """
        told = "written before"
        try:
            await self._produce(now.connection, pipe.partition, batch)
        except ApiError as error:
            told = error.code.name
        except ClientError as error:
            told = type(error).__name__
        self._office.trace.record(
            CLIENT, "late", topic=pipe.partition.topic, partition=pipe.partition.partition, told=told
        )

    async def _produce(self, connection: Connection, tp: TopicPartition, batch: _Batch) -> int:
        topic_id = self._client.metadata.topics[tp.topic].topic_id
        data = PartitionProduceData(index=tp.partition, records=batch.data)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=int(REQUEST_S * 1000),
            topic_data=[TopicProduceData(name=tp.topic, topic_id=topic_id, partition_data=[data])],
        )
        at_most = None if topic_id.int else FIRST_VERSION_WITH_TOPIC_ID - 1
        version = connection.version_of(ProduceRequest, at_most=at_most)
        answer = await connection.request(request, ProduceResponse, version=version, timeout_s=REQUEST_S + MARGIN_S)
        for topic in answer.responses:
            for partition in topic.partition_responses:
                if partition.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return UNKNOWN_OFFSET
                raise_for(partition.error_code, partition.error_message, what=str(tp))
                return partition.base_offset
        raise ConnectionFailed(f"{connection.address} answered Produce without a result for {tp}")

    async def _leader_of(self, pipe: _Pipe) -> _Round:
        client, tp = self._client, pipe.partition
        if pipe.stale:
            await client.topic(tp.topic)
        found = client.metadata.partition(tp.topic, tp.partition)
        if found is None or found.leader_id < 0 or found.leader_epoch < pipe.leader_epoch:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp}: no leader is known after epoch {pipe.leader_epoch}")
        connection = await client.broker(found.leader_id)
        pipe.leader_epoch = found.leader_epoch
        pipe.stale = False
        return _Round(found.leader_id, connection)

    def _judge(self, pipe: _Pipe, leader: int, error: ApiError | ClientError | None) -> None:
        """All before the first batch of the window is acknowledged, and so the leader takes that one next, or knows it.

        Who does not lead any more may refuse it, and the answer may be old. It is wrong if it comes again from who has
        led all the time since it came first.
        """
        before, pipe.refused_by = pipe.refused_by, None
        if not isinstance(error, ApiError) or error.code not in _OUT_OF_SEQUENCE:
            return
        watch = self._office.watch
        # The first batch of an epoch, of which nothing is acknowledged, only a leader of another era may refuse.
        lost = (pipe.begun_in if pipe.era < 0 else pipe.era) < watch.era_of(pipe.partition)
        if lost and error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
            raise LostByElection(str(error)) from error
        leads = watch.leader_of(pipe.partition)
        if leads is None or leads[0] != leader:
            return
        if leads == before:
            watch.on_sequence_refused(
                pipe.partition, f"{error.code.name} by leader {leads[0]} in epoch {leads[1]}: {error}"
            )
        pipe.refused_by = leads

    def _give_up(self, pipe: _Pipe, error: ApiError | ClientError) -> None:
        """Nobody will ever know what became of the window, and the next epoch tells what comes from it."""
        given_up = list(pipe.window)
        if not given_up and pipe.queue:
            # Never sent, so that there is nothing to tell from.
            pipe.queue.popleft().written.set_exception(error)
            return
        pipe.past.extend(given_up)
        pipe.window.clear()
        pipe.epoch += 1
        pipe.next_sequence = 0
        pipe.era = -1
        pipe.refused_by = None
        tp = pipe.partition
        pipe.begun_in = self._office.watch.era_of(tp)
        self._office.trace.record(
            CLIENT, "bumped", topic=tp.topic, partition=tp.partition, producer_epoch=pipe.epoch, error=str(error)[:80]
        )
        for batch in given_up:
            if not batch.written.done():
                batch.written.set_exception(error)

    async def _id(self) -> int:
        async with self._id_lock:
            if self._producer_id is None:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                answer = await (await self._client.any_broker()).request(request, InitProducerIdResponse)
                raise_for(answer.error_code, what="producer id")
                self._producer_id = answer.producer_id
            return self._producer_id
