"""A topic that is another one when a broker is back. Of several steps, as in `races`."""

import asyncio
import random
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.producer import ACKS_LEADER, Producer
from tidelog.client.topics import create_topic, delete_topic
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import TopicImage
from tidelog.sim.clock import START_MS
from tidelog.sim.cluster import CLIENT_PORT, CONTROLLER_PORT, host_of
from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.faults.races import LOOK_S, Race, is_written
from tidelog.sim.links import Cut
from tidelog.sim.machine import State
from tidelog.sim.workloads.churn import TOPICS
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import Record

STOPS_S: Final = 3.0
ASKS_S: Final = 2.0
STARTS: Final = 0.6
"""How often it is made again in the middle of the start, and not before."""
LOAD_LOOK_S: Final = 0.0005
"""Between the logs and the first part to play is the time that a registration takes."""
OTHERS: Final = 2


def remade_while_away(field: Field, rng: random.Random) -> Applied | None:
    """A topic is deleted and made again under its name while a broker that has a replica of it is away: what that one
    still has is of another topic, though offsets and leader epochs are the same. It hears of that before it loads its
    logs, or when it has loaded them and has not been given its part in anything.
    """
    active = field.active_controller()
    away = field.pick_to_kill(rng, [broker for broker in field.brokers() if broker != active])
    if away is None:
        return None
    others = [broker for broker in field.running() if broker in field.brokers() and broker != away]
    others = [broker for broker in others if broker not in field.disturbed]
    if len(others) < OTHERS:
        return None
    story = _Remade(Race(field, rng), rng.choice(TOPICS), away, [*rng.sample(others, OTHERS), away])
    what = {"topic": story.name, "node": away}
    return field.tell_story(story.tell(), story.clean_up, story.race.moment, what=what, nodes=(away,))


class _Remade:
    """The steps. Whoever else works with this topic meanwhile may spoil them."""

    def __init__(self, race: Race, name: str, away: int, replicas: list[int]) -> None:
        self.race = race
        self.name = name
        self._field = race.field
        self._away = away
        self._replicas = replicas
        self._held = False

    def clean_up(self) -> None:
        self.race.heal_all()
        self._let_up()

    def _let_up(self) -> None:
        if self._held:
            self._held = False
            self._field.let_up(self._away)

    async def tell(self) -> None:
        rng = random.Random(self.race.rng.random())
        brokers = [
            Address(host, CLIENT_PORT) for host in self._field.hosts(self._replicas) if host != host_of(self._away)
        ]
        settings = ConnectionSettings(connect_timeout_s=ASKS_S)
        try:
            async with Client(brokers, settings=settings, retry_timeout_s=ASKS_S, rng=rng) as client:
                await self._steps(client)
        except (ApiError, ClientError, TimeoutError) as error:
            self._field.tell(
                "given_up",
                topic=self.name,
                reason=error.code.name if isinstance(error, ApiError) else type(error).__name__,
            )
        self.clean_up()

    async def _steps(self, client: Client) -> None:
        field, away, until = self._field, self._away, self.race.until
        old = await self._written(client)
        if old is None or field.state(away) is not State.RUNNING or not field.can_spare(away):
            return
        self._held = True
        field.hold_down(away)
        if self.race.rng.random() < 0.5:
            field.cluster.kill(away)
        else:
            field.cluster.machine(away).ask_to_stop()
        if not await until(lambda: field.state(away) is State.OFF, STOPS_S):
            return
        starts = self.race.rng.random() < STARTS
        if starts:
            await self.race.pause(0.0, 0.3)
            self._let_up()
            if not await until(self._has_loaded, look_s=LOAD_LOOK_S):
                return
            self.race.cut(Cut.isolate(host_of(away)).on_port(CONTROLLER_PORT))
        await delete_topic(client, self.name)
        await create_topic(client, self.name, assignment={0: self._replicas})
        # Not by all: who is away may be in the ISR until its session ends.
        producer = Producer(client, acks=ACKS_LEADER, delivery_timeout_s=ASKS_S)
        await self._write(producer, "new")
        new = self._there()
        if new is not None and new.topic_id != old.topic_id and self._has_replica(new):
            if self._has_loaded() if starts else field.state(away) is State.OFF:
                self.race.moment.come(starts=starts)
            await self.race.pause(0.0, 0.5)

    async def _written(self, client: Client) -> TopicImage | None:
        """The topic as it was, once the broker that is to go has records of it."""
        there = self._there()
        if there is not None and not self._has_replica(there):
            await delete_topic(client, self.name)
            there = None
        if there is None:
            await create_topic(client, self.name, assignment={0: self._replicas})
        await self._write(Producer(client, delivery_timeout_s=ASKS_S), "old")
        partition = TopicPartition(self.name, 0)
        if not await self.race.until(lambda: is_written(self._field, partition, self._away)):
            return None
        found = self._there()
        return found if found is not None and self._has_replica(found) else None

    async def _write(self, producer: Producer, what: str) -> None:
        """Brokers that have not heard of the topic yet, or not of its leader, send a writer away for a while."""
        records, loop = self._records(what), self._field.cluster.loop
        deadline_s = loop.time() + ASKS_S
        while True:
            try:
                await producer.send(self.name, 0, records)
                return
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(LOOK_S)

    def _has_loaded(self) -> bool:
        """Whether the broker that was away has loaded its logs, of which the metadata has told it nothing since."""
        node = self._field.cluster.nodes[self._away].node
        role = None if node is None else node._role
        # Its listeners are bound between the two.
        bound = node is not None and len(node.listeners) == len(node.config.listeners)
        return bound and role is not None and not role.follower.has_roles

    def _there(self) -> TopicImage | None:
        return self._field.look().topic(self.name)

    def _has_replica(self, topic: TopicImage) -> bool:
        return 0 in topic.partitions and self._away in topic.partitions[0].replicas

    def _records(self, what: str) -> list[Record]:
        now_ms, rng = START_MS + int(self._field.cluster.loop.time() * 1000), self.race.rng
        value = f"{what} {rng.randrange(1 << 30)}".encode()
        return [Record(timestamp=now_ms, key=None, value=value)] * rng.randint(1, 3)


KINDS: Final = (
    FaultKind(name="remade_while_away", profile="control", strike=remade_while_away, weight=1.5, has_steps=True),
)
