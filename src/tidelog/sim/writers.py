"""Clients that write while faults strike, and remember what was promised to them.

The least a run must show whatever else is checked: after the faults every value acknowledged with acks=all is read
back, once, where it was said to be.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.client.topics import create_topic
from tidelog.core.ids import TopicPartition
from tidelog.sim.checks.watch import Watch
from tidelog.sim.clock import START_MS
from tidelog.sim.cluster import SimCluster
from tidelog.sim.trace import Trace
from tidelog.wire.errors import ApiError
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
DELIVERY_TIMEOUT_S: Final = 8.0
CREATE_TIMEOUT_S: Final = 60.0


class Broken(AssertionError):
    """A promise that was not kept; the text says which."""


@dataclass(slots=True)
class Ledger:
    """What was acknowledged: per partition, value to offset; and what may or may not be there."""

    acknowledged: dict[int, dict[bytes, int]] = field(default_factory=dict)
    unknown: dict[int, dict[bytes, None]] = field(default_factory=dict)
    forgotten: int = 0

    @property
    def batches(self) -> int:
        return self.forgotten + sum(len(values) for values in self.acknowledged.values())

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
            elif len(offsets) > 1:
                wrong.append(f"duplicate: {value!r} stands at {offsets} of partition {partition}")
            elif offset >= 0 and offsets[0] != offset:
                wrong.append(f"inconsistent-offsets: {value!r} was acknowledged at {offset}, stands at {offsets[0]}")
        wrong += [f"aborted-read: nobody wrote {value!r}" for value in found if value not in {*promised, *perhaps}]
        return wrong


class Writers:
    """`count` idempotent producers with acks=all, each on its own connections, over all partitions of one topic."""

    def __init__(
        self,
        cluster: SimCluster,
        watch: Watch,
        trace: Trace,
        seed: int,
        *,
        count: int = 4,
        partitions: int = 3,
        mean_gap_s: float = 0.05,
    ) -> None:
        self.ledger: Final = Ledger()
        self._cluster = cluster
        self._watch = watch
        self._trace = trace
        self._seed = seed
        self._count = count
        self._partitions = partitions
        self._mean_gap_s = mean_gap_s
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        async with self._client("setup") as client:
            await create_topic(client, TOPIC, partitions=self._partitions)
        loop = self._cluster.loop
        self._tasks = [loop.create_task(self._write(number), name=f"writer {number}") for number in range(self._count)]

    def on_unclean(self, partition: TopicPartition) -> None:
        if partition.topic == TOPIC:
            self.ledger.forget(partition.partition)

    async def stop(self) -> None:
        """No new batches; those under way are answered or given up."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def check(self) -> None:
        """Reads everything back. `Broken` says what is missing, doubled or made up."""
        wrong: list[str] = []
        async with self._client("reader") as client:
            for partition in range(self._partitions):
                wrong += self.ledger.compare(partition, await self._read(client, partition))
        self._trace.record(
            "checked", acknowledged=self.ledger.batches, forgotten=self.ledger.forgotten, wrong=len(wrong)
        )
        if wrong:
            raise Broken("\n".join(wrong[:20]))

    async def _write(self, number: int) -> None:
        rng = random.Random(f"{self._seed} writer {number}")
        async with self._client(f"client of writer {number}") as client:
            producer = Producer(client, delivery_timeout_s=DELIVERY_TIMEOUT_S)
            count = 0
            while not self._stopping:
                await asyncio.sleep(rng.expovariate(1 / self._mean_gap_s))
                partition = rng.randrange(self._partitions)
                value = b"%d-%d" % (number, count)
                count += 1
                await self._send(producer, partition, Record(timestamp=self._now_ms(), key=None, value=value))

    async def _send(self, producer: Producer, partition: int, record: Record) -> None:
        assert record.value is not None
        value, where = bytes(record.value), TopicPartition(TOPIC, partition)
        era = self._watch.era_of(where)
        try:
            offset = await producer.send(TOPIC, partition, [record])
        except (ApiError, ClientError) as error:
            self.ledger.unknown.setdefault(partition, {})[value] = None
            self._trace.record("unknown", value=value.decode(), error=type(error).__name__)
        else:
            if self._watch.era_of(where) == era:
                self.ledger.acknowledged.setdefault(partition, {})[value] = offset
                self._watch.on_acknowledged(where, offset, era)
            else:
                # Promised by a leader before an unclean election, or after it: nobody can tell.
                self.ledger.unknown.setdefault(partition, {})[value] = None
            self._trace.record("acknowledged", value=value.decode(), partition=partition, offset=offset)

    async def _read(self, client: Client, partition: int) -> dict[bytes, list[int]]:
        consumer = Consumer(client)
        tp = TopicPartition(TOPIC, partition)
        consumer.assign({tp: 0})
        found: dict[bytes, list[int]] = {}
        while True:
            for consumed in await consumer.poll():
                found.setdefault(bytes(consumed.record.value or b""), []).append(consumed.record.offset)
            if consumer.positions[tp] >= consumer.high_watermarks.get(tp, 1 << 62):
                return found

    def _now_ms(self) -> int:
        return START_MS + int(self._cluster.loop.time() * 1000)

    def _client(self, name: str) -> Client:
        return Client(
            [Address(host, port) for host, port in self._cluster.bootstrap()],
            retry_timeout_s=CREATE_TIMEOUT_S,
            rng=random.Random(f"{self._seed} {name}"),
        )
