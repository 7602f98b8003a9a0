"""What a configuration is worth: one incident under load, and which acknowledged records are there afterwards.

Other than in a campaign of invariants, losing a record is an outcome here and no alarm: configurations that may lose
records are run to see how often they do. The incident follows from the seed alone, so that every configuration meets
the same ones: one broker fails, or two, or all three after one another, by turns. The controller never does.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.client.producer import ACKS_ALL, Producer
from tidelog.client.topics import create_topic
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.sim.clock import START_MS
from tidelog.sim.cluster import SimCluster, host_of
from tidelog.sim.links import Cut, Delay
from tidelog.sim.loop import Deadlock, Spinning
from tidelog.sim.machine import NotRunning
from tidelog.sim.trace import CLIENT, FAULT, FORMAT, RUN, Trace
from tidelog.sim.witness import Witness
from tidelog.wire.errors import ApiError
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
BROKERS: Final = 3
PARTITIONS: Final = 3
# A network of several rooms: what is written is not everywhere at once.
NETWORK: Final = Delay(0.0005, 0.002)
WRITE_GAP_S: Final = 0.08
# An answer that takes longer is given up, and another broker is asked who leads: nobody was promised anything.
GIVE_UP_S: Final = 1.5
OUTAGE_S: Final = 7.5
"""Longer without a write than a leader takes to be replaced: that partition was unavailable."""
_RECOVERY_S: Final = 60.0
_WARM_S: Final = 1.0
_SHOWN: Final = 5
_PROPERTIES: Final = {
    # Sooner than Kafka's 9 s and 30 s, so that a run is short.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "log.retention.ms": "-1",
    "metadata.max.idle.interval.ms": "3000",
}


class BadConfiguration(ValueError):
    """What was given does not say what to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """What a team decides about a topic."""

    replication_factor: int = 3
    min_insync_replicas: int = 2
    acks: int = ACKS_ALL
    unclean: bool = False
    fsync: bool = False
    """Whether a batch is on the disk before it is acknowledged (`flush.messages=1`)."""

    def __str__(self) -> str:
        acks = "all" if self.acks == ACKS_ALL else str(self.acks)
        flags = ("" if not self.unclean else ",unclean") + ("" if not self.fsync else ",fsync")
        return f"rf={self.replication_factor},min={self.min_insync_replicas},acks={acks}{flags}"

    @classmethod
    def parse(cls, text: str) -> "Durability":
        """`rf=3,min=2,acks=all[,unclean][,fsync]`."""
        given: dict[str, Any] = {}
        for part in (each.strip() for each in text.split(",")):
            name, _, value = part.partition("=")
            if part in ("unclean", "fsync"):
                given[part] = True
            elif name == "acks" and value in ("all", "-1", "1"):
                given["acks"] = 1 if value == "1" else ACKS_ALL
            elif name in ("rf", "min") and value.isdecimal() and 1 <= int(value) <= BROKERS:
                given["replication_factor" if name == "rf" else "min_insync_replicas"] = int(value)
            else:
                raise BadConfiguration(
                    f"{part!r} in {text!r}; use rf=1..{BROKERS}, min=1..{BROKERS}, acks=all or 1, unclean, fsync"
                )
        found = cls(**given)
        if found.min_insync_replicas > found.replication_factor:
            raise BadConfiguration(
                f"{text!r}: with min.insync.replicas above the replication factor no write is accepted"
            )
        return found

    def topic_config(self) -> dict[str, str]:
        config = {
            "min.insync.replicas": str(self.min_insync_replicas),
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }
        return config | ({"flush.messages": "1"} if self.fsync else {})


# What teams choose from, from the safest on.
CONFIGURATIONS: Final[tuple[Durability, ...]] = (
    Durability(fsync=True),
    Durability(),
    Durability(unclean=True),
    Durability(min_insync_replicas=1),
    Durability(min_insync_replicas=1, acks=1),
    Durability(replication_factor=1, min_insync_replicas=1, acks=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Of one broker: when, how, and for how long."""

    broker: int
    kind: str
    at_s: float
    lasts_s: float


KINDS: Final = ("kill", "power_cut", "isolate", "pause")


def incident_of(seed: int) -> list[Failure]:
    """Each broker fails while those before it are away, before or after that is noticed; of three, the first is back
    while the others are not.
    """
    rng = random.Random(f"{seed} incident")
    brokers = rng.sample(range(1, BROKERS + 1), 1 + seed % BROKERS)
    failures: list[Failure] = []
    at_s = 0.0
    for broker in brokers:
        at_s += rng.uniform(0.0, 1.0) if not failures else rng.choice((rng.uniform(0.0, 0.2), rng.uniform(0.2, 5.0)))
        kind = rng.choice(KINDS)
        failures.append(
            Failure(broker=broker, kind=kind, at_s=round(at_s, 6), lasts_s=round(rng.uniform(9.0, 12.0), 6))
        )
    return failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A record that was acknowledged and is not there any more."""

    partition: int
    offset: int
    value: str
    acknowledged_at_s: float


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What one run showed."""

    seed: int
    configuration: Durability
    incident: list[Failure]
    acknowledged: int = 0
    lost: int = 0
    examples: list[Lost] = field(default_factory=list)
    # The longest time in which a partition took no write.
    longest_outage_s: float = 0.0
    unclean_elections: int = 0
    seconds: float = 0.0
    digest: str = ""
    # Why the run says nothing, if it does not.
    broken: str = ""

    @property
    def unavailable(self) -> bool:
        return self.longest_outage_s > OUTAGE_S

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"configuration": str(self.configuration), "unavailable": self.unavailable}


def run(seed: int, configuration: Durability, *, sink: Callable[[str], None] = lambda line: None) -> Verdict:
    """The same for the same seed and configuration, on every machine."""
    verdict = Verdict(seed=seed, configuration=configuration, incident=incident_of(seed))
    with SimCluster(BROKERS, controllers=1, seed=seed, properties=_PROPERTIES, delay=NETWORK) as cluster:
        trace = Trace(cluster.loop, lambda: cluster.loop.steps, sink)
        cluster.on_metadata = witness = Witness(trace)
        cluster.on_event = trace.node_event
        trace.record(RUN, "seed", format=FORMAT, seed=seed, roles=cluster.roles, durability=str(configuration))
        try:
            cluster.run(_Story(cluster, trace, verdict).whole())
        except (TimeoutError, Deadlock, Spinning, ApiError, ClientError, NotRunning) as error:
            verdict.broken = f"{type(error).__name__}: {error}"
        verdict.seconds = cluster.loop.time()
        verdict.unclean_elections = witness.unclean
        verdict.digest = trace.end()
    return verdict


class _Story:
    def __init__(self, cluster: SimCluster, trace: Trace, verdict: Verdict) -> None:
        self._cluster = cluster
        self._trace = trace
        self._verdict = verdict
        self._stopping = False
        # Per partition: value to offset and the time of the answer.
        self._promised: list[dict[bytes, tuple[int, float]]] = [{} for _ in range(PARTITIONS)]
        self._answered_at: list[float] = [0.0] * PARTITIONS
        self._outage_s: list[float] = [0.0] * PARTITIONS

    async def whole(self) -> None:
        cluster, configuration = self._cluster, self._verdict.configuration
        await cluster.start_all()
        async with self._client("setup", retry_s=_RECOVERY_S) as client:
            await create_topic(
                client,
                TOPIC,
                partitions=PARTITIONS,
                replication_factor=configuration.replication_factor,
                config=configuration.topic_config(),
            )
        await cluster.until(self._is_whole, timeout_s=_RECOVERY_S, every_s=0.1)
        writers = [
            cluster.loop.create_task(self._write(number), name=f"writer {number}") for number in range(PARTITIONS)
        ]
        await asyncio.sleep(_WARM_S)
        await asyncio.gather(*(self._fail(each) for each in self._verdict.incident))
        await cluster.until(self._is_whole, timeout_s=_RECOVERY_S, every_s=0.1)
        self._stopping = True
        await asyncio.gather(*writers)
        await self._judge()

    def _client(self, name: str, *, retry_s: float = GIVE_UP_S, rng: random.Random | None = None) -> Client:
        addresses = [Address(host, port) for host, port in self._cluster.bootstrap()]
        if rng is not None:
            rng.shuffle(addresses)
        return Client(
            addresses,
            settings=ConnectionSettings(connect_timeout_s=1.0, request_timeout_s=GIVE_UP_S),
            retry_timeout_s=retry_s,
            rng=random.Random(f"{self._verdict.seed} client of {name}"),
        )

    # --- the incident -------------------------------------------------------------------------------------------------

    async def _fail(self, failure: Failure) -> None:
        await asyncio.sleep(failure.at_s)
        cluster, node, network = self._cluster, failure.broker, self._cluster.network
        self._trace.record(FAULT, failure.kind, node=node, lasts_s=failure.lasts_s)
        cut: Cut | None = None
        match failure.kind:
            case "kill":
                cluster.kill(node)
            case "power_cut":
                cluster.power_cut(node)
            case "pause":
                cluster.pause(node)
            case _:
                # Between nodes; clients still reach it.
                others = [host_of(other) for other in cluster.nodes if other != node]
                cut = Cut.partition([[host_of(node)], others])
                network.apply(cut)
        await asyncio.sleep(failure.lasts_s)
        self._trace.record(FAULT, "end", node=node)
        if cut is not None:
            network.heal(cut)
        elif failure.kind == "pause":
            cluster.resume(node)
        if not cluster.is_running(node):
            await cluster.start(node)

    def _is_whole(self) -> bool:
        """Every partition led, every replica in sync, by what the controller has committed."""
        image = self._image()
        topic = None if image is None else image.topic(TOPIC)
        return (
            topic is not None
            and len(topic.partitions) == PARTITIONS
            and all(each.leader >= 0 and set(each.isr) == set(each.replicas) for each in topic.partitions.values())
        )

    def _image(self) -> ClusterImage | None:
        for node in self._cluster.nodes.values():
            control = None if node.node is None else node.node.control
            if control is not None and control.controller is not None:
                return control.image
        return None

    # --- load ---------------------------------------------------------------------------------------------------------

    async def _write(self, partition: int) -> None:
        loop, configuration = self._cluster.loop, self._verdict.configuration
        rng = random.Random(f"{self._verdict.seed} writer {partition}")
        self._answered_at[partition] = loop.time()
        count = 0
        while not self._stopping:
            # A client for as long as it is answered: a leader that is cut off keeps it waiting and names itself.
            async with self._client(f"writer {partition} {count}", rng=rng) as client:
                producer = Producer(client, acks=configuration.acks, delivery_timeout_s=GIVE_UP_S)
                while not self._stopping:
                    await asyncio.sleep(rng.expovariate(1 / WRITE_GAP_S))
                    value = b"%d-%d" % (partition, count)
                    count += 1
                    try:
                        async with asyncio.timeout(GIVE_UP_S):
                            offset = await producer.send(TOPIC, partition, [self._record(value)])
                    except (ApiError, ClientError, TimeoutError):
                        break
                    finally:
                        self._note_silence(partition)
                    self._answered_at[partition] = loop.time()
                    self._promised[partition][value] = (offset, loop.time())

    def _record(self, value: bytes) -> Record:
        return Record(timestamp=START_MS + int(self._cluster.loop.time() * 1000), key=None, value=value)

    def _note_silence(self, partition: int) -> None:
        silent_s = self._cluster.loop.time() - self._answered_at[partition]
        self._outage_s[partition] = max(self._outage_s[partition], silent_s)

    # --- the verdict --------------------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        verdict = self._verdict
        verdict.acknowledged = sum(len(each) for each in self._promised)
        verdict.longest_outage_s = round(max(self._outage_s), 3)
        async with self._client("reader", retry_s=_RECOVERY_S) as client:
            for partition, promised in enumerate(self._promised):
                found = await self._read(client, partition)
                gone: Mapping[bytes, tuple[int, float]] = {
                    value: told for value, told in promised.items() if value not in found
                }
                verdict.lost += len(gone)
                for value, (offset, at_s) in list(gone.items())[: max(0, _SHOWN - len(verdict.examples))]:
                    verdict.examples.append(
                        Lost(partition=partition, offset=offset, value=value.decode(), acknowledged_at_s=round(at_s, 3))
                    )
        self._trace.record(CLIENT, "judged", acknowledged=verdict.acknowledged, lost=verdict.lost)

    async def _read(self, client: Client, partition: int) -> set[bytes]:
        consumer, tp = Consumer(client), TopicPartition(TOPIC, partition)
        consumer.assign({tp: 0})
        found: set[bytes] = set()
        while True:
            found |= {bytes(each.record.value or b"") for each in await consumer.poll()}
            if consumer.positions[tp] >= consumer.high_watermarks.get(tp, 1 << 62):
                return found
