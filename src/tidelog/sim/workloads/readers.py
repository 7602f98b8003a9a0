"""Clients that read while faults strike, and find out when what they saw changes."""

import asyncio
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.offsets import LATEST, list_offsets
from tidelog.core.ids import TopicPartition
from tidelog.sim.trace import CLIENT
from tidelog.sim.workloads.office import TOPIC, Office, dismiss
from tidelog.wire.errors import ApiError, WireError

BACKOFF_S: Final = 0.1
ASK_S: Final = 0.7
MAX_WAIT_MS: Final = 500
LEISURE_S: Final = 0.3
"""How long a reader puts off its next fetch when nobody hurries it."""


class Readers:
    """One reads every partition from the beginning and on and on; one asks where the partitions end."""

    def __init__(self, office: Office) -> None:
        self.read = 0
        self._office = office
        self._tasks: list[asyncio.Task[None]] = []
        self._positions: dict[TopicPartition, int] = {}

    def begin(self) -> None:
        loop = self._office.cluster.loop
        self._tasks = [loop.create_task(self._read(), name="reader"), loop.create_task(self._ask(), name="asker")]

    def behind(self) -> str | None:
        """Which partition is not read to its end, once nobody writes any more."""
        if any(task.done() for task in self._tasks):
            # By an error, which `stop` raises.
            return None
        for partition, position in self._positions.items():
            end = self._office.watch.end_of(partition)
            if position < end:
                return f"a reader of {partition} is at {position} of {end}"
        return None

    async def stop(self) -> None:
        await dismiss(self._tasks)

    async def _read(self) -> None:
        office = self._office
        partitions = [TopicPartition(TOPIC, number) for number in range(office.partitions)]
        async with office.client("reader") as client:
            await asyncio.gather(*(self._follow(client, partition) for partition in partitions))

    async def _follow(self, client: Client, partition: TopicPartition) -> None:
        office, watch = self._office, self._office.watch
        rng = office.rng(f"reader {partition.partition}")
        consumer = Consumer(client, max_wait_ms=MAX_WAIT_MS)
        era = watch.era_of(partition)
        consumer.assign({partition: 0})
        while True:
            if watch.era_of(partition) != era:
                # What was read before may be gone: begin again.
                era = watch.era_of(partition)
                consumer.assign({partition: 0})
            position = self._positions[partition] = consumer.positions[partition]
            try:
                found = await consumer.poll()
            except (ApiError, ClientError, WireError) as error:
                # Also out of range, since an old leader may not have what a new one has shown.
                if isinstance(error, WireError) and not office.damaged():
                    raise
                office.trace.record(CLIENT, "unread", topic=TOPIC, partition=partition.partition, error=str(error)[:80])
                await self._look_for_leaders(client, partition)
                continue
            self.read += len(found)
            if found:
                office.trace.record(
                    CLIENT,
                    "read",
                    topic=TOPIC,
                    partition=partition.partition,
                    offset=found[0].record.offset,
                    records=len(found),
                )
            for consumed in found:
                watch.on_read(partition, position, consumed.record.offset, bytes(consumed.record.value or b""), era)
                position = self._positions[partition] = consumed.record.offset + 1
            if found and not office.hurried():
                await asyncio.sleep(rng.expovariate(1 / LEISURE_S))

    async def _look_for_leaders(self, client: Client, partition: TopicPartition) -> None:
        try:
            await client.refresh([TOPIC])
        except (ApiError, ClientError) as error:
            self._office.trace.record(
                CLIENT, "unread", topic=TOPIC, partition=partition.partition, error=str(error)[:80]
            )
        await asyncio.sleep(BACKOFF_S)

    async def _ask(self) -> None:
        office, watch = self._office, self._office.watch
        rng = office.rng("asker")
        async with office.client("asker") as client:
            while True:
                await asyncio.sleep(rng.expovariate(1 / ASK_S))
                partition = TopicPartition(TOPIC, rng.randrange(office.partitions))
                era = watch.era_of(partition)
                before = watch.latest_of(partition)
                try:
                    answer = (await list_offsets(client, {partition: LATEST}))[partition]
                except (ApiError, ClientError) as error:
                    office.trace.record(
                        CLIENT, "not_told", topic=TOPIC, partition=partition.partition, error=str(error)[:80]
                    )
                    continue
                office.trace.record(
                    CLIENT,
                    "latest",
                    topic=TOPIC,
                    partition=partition.partition,
                    leader_epoch=answer.leader_epoch,
                    offset=answer.offset,
                )
                watch.on_latest(partition, answer.leader_epoch, answer.offset, before, era)
