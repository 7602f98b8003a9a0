"""Topics that come and go while faults strike."""

import asyncio
from typing import Final

from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.client.topics import create_partitions, create_topic, delete_topic
from tidelog.sim.trace import CLIENT
from tidelog.sim.workloads.office import Office, dismiss
from tidelog.wire.errors import ApiError
from tidelog.wire.records.plain import Record

MEAN_GAP_S: Final = 2.5
TOPICS: Final = ("churn-0", "churn-1")
WRITE_S: Final = 2.0
"""How long a write is tried: to a topic that is not there in vain."""


class Churn:
    """Small topics, made, written to, grown and deleted; the names come again."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = self._office.cluster.loop.create_task(self._go(), name="churn")

    async def stop(self) -> None:
        if self._task is not None:
            await dismiss([self._task])

    async def _go(self) -> None:
        rng = self._office.rng("churn")
        async with self._office.client("churn") as client:
            producer = Producer(client, delivery_timeout_s=WRITE_S)
            while True:
                await asyncio.sleep(rng.expovariate(1 / MEAN_GAP_S))
                name, what = (
                    rng.choice(TOPICS),
                    rng.choice(("make", "make", "write", "write", "grow", "delete")),
                )
                told = "done"
                try:
                    if what == "make":
                        await create_topic(client, name, partitions=1)
                    elif what == "write":
                        record = Record(timestamp=self._office.now_ms(), key=None, value=b"%d" % rng.randrange(1 << 30))
                        await producer.send(name, 0, [record] * rng.randint(1, 3))
                    elif what == "grow":
                        await create_partitions(client, name, 2)
                    else:
                        await delete_topic(client, name)
                except ApiError as error:
                    told = error.code.name
                except ClientError as error:
                    told = type(error).__name__
                self._office.trace.record(CLIENT, "churn", topic=name, what=what, told=told)
