"""The demo's load: writers that number their records and count the acknowledged ones, and the count afterwards."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.broker.clock import SystemWallClock
from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.core.ids import TopicPartition
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
WRITERS: Final = 4
BATCH: Final = 50
# Prices in cents; writers take the items in turn.
ITEMS: Final = {"tea": 350, "coffee": 420, "cake": 510, "soup": 690, "bread": 280}
_NAMES: Final = tuple(ITEMS)
# A writer pauses between batches so that the demo shows a story and not how fast a laptop is.
_PAUSE_S: Final = 0.01


class Wait(NamedTuple):
    """One request of a writer, from sending to acknowledgement, in seconds of the event loop."""

    writer: int
    asked_s: float
    answered_s: float

    @property
    def seconds(self) -> float:
        return self.answered_s - self.asked_s


@dataclass(slots=True)
class Score:
    """What the writers know: how many records of each were acknowledged, and how long each request took."""

    acknowledged: list[int] = field(default_factory=lambda: [0] * WRITERS)
    waits: list[Wait] = field(default_factory=list)

    @property
    def longest_wait_s(self) -> float:
        """How long the leader was absent, as a client sees it."""
        return max((each.seconds for each in self.waits), default=0.0)

    @property
    def total(self) -> int:
        return sum(self.acknowledged)


def order(writer: int, number: int) -> bytes:
    item = _NAMES[(writer + number) % len(_NAMES)]
    return json.dumps({"writer": writer, "number": number, "item": item, "cents": ITEMS[item]}).encode()


async def write(client: Client, writer: int, score: Score, stop: asyncio.Event) -> None:
    """Each writer has a partition of its own."""
    loop = asyncio.get_running_loop()
    clock = SystemWallClock()
    producer = Producer(client)
    sent = 0
    while not stop.is_set():
        numbers = range(sent, sent + BATCH)
        records = [Record(timestamp=clock.now_ms(), value=order(writer, number)) for number in numbers]
        asked = loop.time()
        await producer.send(TOPIC, writer, records)
        score.waits.append(Wait(writer, asked, loop.time()))
        sent += BATCH
        score.acknowledged[writer] = sent
        await asyncio.sleep(_PAUSE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The records that were read back."""

    found: int
    missing: int
    doubled: int

    @property
    def is_good(self) -> bool:
        return not self.missing and not self.doubled


async def count(client: Client, score: Score) -> Counted:
    """Reads everything back and compares it with the acknowledged records."""
    consumer = Consumer(client, max_wait_ms=100)
    consumer.assign({TopicPartition(TOPIC, writer): 0 for writer in range(WRITERS)})
    seen: list[dict[bytes, int]] = [{} for _ in range(WRITERS)]
    while True:
        polled = await consumer.poll()
        for consumed in polled:
            assert consumed.record.value is not None
            values = seen[consumed.tp.partition]
            values[consumed.record.value] = values.get(consumed.record.value, 0) + 1
        at_end = all(consumer.high_watermarks.get(tp) == position for tp, position in consumer.positions.items())
        if not polled and at_end:
            break
    return Counted(
        found=sum(len(values) for values in seen),
        missing=sum(
            order(writer, number) not in seen[writer]
            for writer in range(WRITERS)
            for number in range(score.acknowledged[writer])
        ),
        doubled=sum(times > 1 for values in seen for times in values.values()),
    )
