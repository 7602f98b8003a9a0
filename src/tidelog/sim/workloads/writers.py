"""Clients that write while faults strike, and remember what was promised to them.

The least a run must show whatever else is checked: after the faults every value acknowledged with acks=all is read
back, once, where it was said to be. Those who ask for less are promised nothing, and make logs differ.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Producer
from tidelog.client.topics import create_topic
from tidelog.core.ids import TopicPartition
from tidelog.sim.checks.clients import ReadBack
from tidelog.sim.checks.liveness import Unsettled
from tidelog.sim.trace import CLIENT, RUN
from tidelog.sim.workloads.office import RETRY_S, TOPIC, Office
from tidelog.sim.workloads.pipelines import LostByElection, PipelinedProducer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import Record

CREATE_TIMEOUT_S: Final = 60.0
# Small, so that segments roll while faults strike.
SEGMENT_BYTES: Final = 16_384
# When nobody hurries them, writers write all at once to one partition: a follower fetches once what each of them wrote.
TOGETHER_S: Final = 0.4
LATE_S: Final = 0.15
"""The same if fewer batches are acknowledged than should be."""


BURSTS: Final = (0, 0, 1, 2, 5)


@dataclass(slots=True)
class Ledger:
    """What was acknowledged: per partition, value to offset; and what may or may not be there."""

    acknowledged: dict[int, dict[bytes, int]] = field(default_factory=dict)
    unknown: dict[int, dict[bytes, None]] = field(default_factory=dict)
    doubled: dict[bytes, None] = field(default_factory=dict)
    """Values of producers that are not idempotent: a retry may have written them twice."""
    batches: int = 0
    """How many were acknowledged; `forgotten` are records of them that an unclean election may have lost."""
    forgotten: int = 0

    def forget(self, partition: int) -> None:
        """What was promised of a partition so far may be lost."""
        for value in self.acknowledged.pop(partition, {}):
            self.unknown.setdefault(partition, {})[value] = None
            self.forgotten += 1

    def compare(self, partition: int, found: dict[bytes, list[int]]) -> list[str]:
        """What is wrong with what was read from the beginning of a partition."""
        wrong = []
        promised, perhaps = self.acknowledged.get(partition, {}), self.unknown.get(partition, {})
        for value, offset in promised.items():
            offsets = found.get(value, [])
            if not offsets:
                wrong.append(f"lost-write: {value!r} was acknowledged at {offset} of partition {partition}")
            elif len(offsets) > 1 and value not in self.doubled:
                wrong.append(f"duplicate: {value!r} is at {offsets} of partition {partition}")
            elif offset >= 0 and offset not in offsets:
                wrong.append(f"inconsistent-offsets: {value!r} was acknowledged at {offset}, but is at {offsets}")
        wrong += [
            f"aborted-read: nobody wrote {each!r}" for each in found if each not in promised and each not in perhaps
        ]
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a writer writes."""

    acks: int = ACKS_ALL
    idempotent: bool = True
    mean_gap_s: float = 0.1
    records: int = 1
    """In a batch."""
    bursts: tuple[int, ...] = ()
    """How many batches at once, one of these, where several may be in flight (`pipelines`)."""
    patience_s: float = RETRY_S


STYLES: Final = (
    Style(),
    # One keeps its epoch through almost everything. The other gives up while what it sent may still be on its way.
    Style(bursts=BURSTS, mean_gap_s=0.25, patience_s=25.0),
    Style(bursts=BURSTS, mean_gap_s=0.25, patience_s=4.0, records=3),
    Style(idempotent=False, mean_gap_s=0.2),
    Style(acks=ACKS_LEADER, idempotent=False, mean_gap_s=0.2),
    Style(acks=ACKS_NONE, idempotent=False, mean_gap_s=0.4),
)


@dataclass(slots=True, eq=False)
class _Author:
    """One writer: how it writes, and how many values it has written."""

    number: int
    style: Style
    producer: Producer | PipelinedProducer
    count: int = 0
    sending: list[asyncio.Task[ApiError | ClientError | None]] = field(default_factory=list)
    """What is in flight, if it does not wait for that."""
    eras: dict[int, int] = field(default_factory=dict)
    """In which era of each partition it was last acknowledged."""


class Writers:
    """One for each of `STYLES`, on its own connections, over all partitions of the topic."""

    def __init__(self, office: Office) -> None:
        self.ledger: Final = Ledger()
        self._office = office
        self._stopping = False
        self._clients = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._authors: list[_Author] = []
        self._called: asyncio.Future[int] = office.cluster.loop.create_future()
        """When to write together, and to which partition."""
        self._caller: asyncio.Task[None] | None = None
        self._rng = office.rng("caller")

    async def begin(self) -> None:
        office = self._office
        async with office.client("setup", retry_s=CREATE_TIMEOUT_S) as client:
            config = {"internal.segment.bytes": str(SEGMENT_BYTES)}
            await create_topic(client, TOPIC, partitions=office.partitions, config=config)
        loop = office.cluster.loop
        for number, style in enumerate(STYLES):
            client = await self._clients.enter_async_context(office.client(f"writer {number}"))
            producer: Producer | PipelinedProducer
            if style.bursts:
                rng = office.rng(f"producer {number}")
                producer = PipelinedProducer(office, client, rng, patience_s=style.patience_s)
            else:
                patience_s = style.patience_s
                producer = Producer(client, acks=style.acks, idempotent=style.idempotent, delivery_timeout_s=patience_s)
            self._authors.append(_Author(number, style, producer))
        self._tasks = [loop.create_task(self._write(each), name=f"writer {each.number}") for each in self._authors]
        self._caller = loop.create_task(self._call_together(), name="caller")

    def on_unclean(self, partition: TopicPartition) -> None:
        if partition.topic == TOPIC:
            self.ledger.forget(partition.partition)

    def hurry(self) -> None:
        """Whoever waits for the others writes now, and then as it is hurried."""
        self._call(self._rng.randrange(self._office.partitions))

    async def stop(self) -> None:
        """No new batches; those under way are answered or given up."""
        self._stopping = True
        if self._caller is not None:
            self._caller.cancel()
        self._call(0)
        await asyncio.gather(*self._tasks)

    async def confirm(self) -> None:
        """Once the cluster has settled everybody writes to every partition, and is answered.

        They are those who wrote while faults lasted, with the sequence numbers they have come to. `Unsettled` says who
        was refused.
        """
        for error in await asyncio.gather(*(self._write_once(author) for author in self._authors)):
            if error is not None:
                raise Unsettled(error)
        await self._clients.aclose()

    async def _write_once(self, author: "_Author") -> str | None:
        for partition in range(self._office.partitions):
            error = await self._send(author, partition)
            if error is not None and self._lost_its_last(author, error, partition):
                # It goes on under a new producer id, or in a new epoch.
                error = await self._send(author, partition)
            if error is not None:
                told = f"{type(error).__name__}: {error}"
                return f"after the last fault, writer {author.number} failed in partition {partition}: {told}"
        return None

    def _lost_its_last(self, author: "_Author", error: ApiError | ClientError, partition: int) -> bool:
        """Whether an unclean election may have taken the writer's last batches: that is how it hears of it, once."""
        if isinstance(error, LostByElection):
            return True
        era = self._office.watch.era_of(TopicPartition(TOPIC, partition))
        return (
            author.eras.get(partition, 0) < era
            and isinstance(error, ApiError)
            and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )

    async def check(self) -> None:
        """Reads everything back. `InvariantBroken` says what is missing, doubled or made up."""
        wrong: dict[int, list[str]] = {}
        async with self._office.client("checker", retry_s=CREATE_TIMEOUT_S) as client:
            for partition in range(self._office.partitions):
                wrong[partition] = self.ledger.compare(partition, await self._read(client, partition))
        count = sum(map(len, wrong.values()))
        self._office.trace.record(
            RUN, "checked", acknowledged=self.ledger.batches, forgotten=self.ledger.forgotten, wrong=count
        )
        for partition, told in wrong.items():
            if told:
                raise ReadBack().broken("\n".join(told[:20]), TopicPartition(TOPIC, partition))

    async def _write(self, author: "_Author") -> None:
        office = self._office
        rng = office.rng(f"writer {author.number}")
        while not self._stopping:
            if office.hurried():
                await asyncio.sleep(rng.expovariate(1 / author.style.mean_gap_s))
                partition = rng.randrange(office.partitions)
            else:
                partition = await asyncio.shield(self._called)
            if isinstance(author.producer, PipelinedProducer):
                self._send_burst(author, author.producer, partition, rng.choice(author.style.bursts))
            else:
                await self._send(author, partition)
        for sending in author.sending:
            await sending

    def _send_burst(self, author: "_Author", producer: PipelinedProducer, partition: int, size: int) -> None:
        """Sends and goes on. What would only wait for its turn is left to later."""
        over = [sending for sending in author.sending if sending.done()]
        author.sending = [sending for sending in author.sending if not sending.done()]
        for sending in over:
            sending.result()
        loop, name = self._office.cluster.loop, f"batch of writer {author.number}"
        for _ in range(min(size, producer.room(TOPIC, partition))):
            author.sending.append(loop.create_task(self._send(author, partition), name=name))

    async def _call_together(self) -> None:
        while True:
            late = self.ledger.batches < self._office.due()
            await asyncio.sleep(self._rng.expovariate(1 / (LATE_S if late else TOGETHER_S)))
            self.hurry()

    def _call(self, partition: int) -> None:
        called, self._called = self._called, self._office.cluster.loop.create_future()
        called.set_result(partition)

    async def _send(self, author: "_Author", partition: int) -> ApiError | ClientError | None:
        """The next batch of this writer; why it is not known to be written."""
        office, where, style = self._office, TopicPartition(TOPIC, partition), author.style
        values = [b"%d-%d" % (author.number, author.count + number) for number in range(style.records)]
        author.count += len(values)
        if not style.idempotent:
            self.ledger.doubled.update(dict.fromkeys(values))
        refused: ApiError | ClientError | None = None
        records = [Record(timestamp=office.now_ms(), key=None, value=value) for value in values]
        era = office.watch.era_of(where)
        sent = {"topic": TOPIC, "partition": partition, "value": values[0].decode(), "records": len(values)}
        sent["sent"] = office.trace.now_s
        known = False
        try:
            offset = await author.producer.send(TOPIC, partition, records)
        except (ApiError, ClientError) as error:
            refused = error
            office.trace.record(CLIENT, "unknown", **sent, acks=style.acks, error=type(error).__name__)
        else:
            # What a leader promised before an unclean election, or asked for less than all, may be lost.
            known = style.acks == ACKS_ALL and office.watch.era_of(where) == era
            told = "acknowledged" if style.acks == ACKS_ALL else "written"
            office.trace.record(CLIENT, told, **sent, acks=style.acks, offset=offset)
        if known:
            author.eras[partition] = era
            self.ledger.batches += 1
            # Who was told that a batch is a duplicate was not told where it stands.
            for at, value in enumerate(values, offset) if offset >= 0 else ((offset, value) for value in values):
                self.ledger.acknowledged.setdefault(partition, {})[value] = at
                office.watch.on_acknowledged(where, at, value, era)
        else:
            self.ledger.unknown.setdefault(partition, {}).update(dict.fromkeys(values))
        return refused

    async def _read(self, client: Client, partition: int) -> dict[bytes, list[int]]:
        consumer, watch = Consumer(client), self._office.watch
        tp = TopicPartition(TOPIC, partition)
        era = watch.era_of(tp)
        consumer.assign({tp: 0})
        found: dict[bytes, list[int]] = {}
        while True:
            position = consumer.positions[tp]
            for consumed in await consumer.poll():
                offset, value = consumed.record.offset, bytes(consumed.record.value or b"")
                watch.on_read(tp, position, offset, value, era)
                position = offset + 1
                found.setdefault(value, []).append(offset)
            if consumer.positions[tp] >= consumer.high_watermarks.get(tp, 1 << 62):
                return found
