"""A small cluster that somebody watches, with a few records in it: for tests that damage it behind its back."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.client.producer import ACKS_ALL, Producer
from tidelog.client.topics import create_topic
from tidelog.core.ids import TopicPartition
from tidelog.sim.campaign import PROPERTIES
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.liveness import Liveness
from tidelog.sim.checks.look import PartitionLook, ReplicaLook
from tidelog.sim.checks.watch import Watch
from tidelog.sim.cluster import SimCluster
from tidelog.sim.trace import Trace
from tidelog.sim.workloads.office import TOPIC, Office
from tidelog.wire.records.batch import compute_crc, read_header
from tidelog.wire.records.plain import Record

ORDERS = TopicPartition(TOPIC, 0)
VALUES = [b"%d" % number for number in range(5)]
EPOCH_AT = 12
"""Where a batch has its leader epoch; no CRC covers it."""
CRC_AT = 17


class World:
    """Damage is done between two steps of its loop, as by a bug: nobody has acted on it when it is looked at."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.trace = Trace(cluster.loop, lambda: cluster.loop.steps)
        self.watch = Watch(cluster, self.trace)
        self.office = Office(cluster, self.watch, self.trace, 1, partitions=1)
        self.liveness = Liveness(cluster, self.watch)
        cluster.on_metadata = self.watch.on_metadata

    async def begin(self) -> None:
        await self.cluster.start_all()
        async with self.office.client("setup", retry_s=30.0) as client:
            await create_topic(client, TOPIC, partitions=1)
            producer = Producer(client, acks=ACKS_ALL, idempotent=True)
            for value in VALUES:
                record = Record(timestamp=self.office.now_ms(), key=None, value=value)
                self.watch.on_acknowledged(ORDERS, await producer.send(TOPIC, 0, [record]), value, 0)
        await self.cluster.until(lambda: self.liveness.missing() is None)

    def failure(self) -> InvariantBroken | None:
        return self.watch.failure.result() if self.watch.failure.done() else None

    def look(self) -> PartitionLook:
        """As if nobody had looked before: every log is read from its beginning."""
        watch = self.watch
        watch._found.of.clear()
        watch._found.look_again(self.cluster.nodes)
        look = watch._look_of(ORDERS)
        assert look is not None
        for replica in look.replicas:
            watch._found.note_exposure(replica)
        assert [replica.node_id for replica in look.replicas] == [1, 2, 3]
        return look

    def leader(self) -> ReplicaLook:
        leader = self.look().leader
        assert leader is not None
        return leader

    def follower(self) -> ReplicaLook:
        look = self.look()
        return next(replica for replica in look.replicas if replica.node_id != look.registration.leader)

    def overwrite(self, replica: ReplicaLook, offset: int, at: int, *, new_crc: bool = False) -> None:
        """A bit of the byte at `at` of that batch, where it stands on the disk."""
        batch = replica.mirror.at(offset)
        assert batch is not None
        data = bytearray(replica.mirror.data(batch))
        data[at] ^= 1
        if new_crc:
            data[CRC_AT : CRC_AT + 4] = compute_crc(data, read_header(data, 0), 0).to_bytes(4, "big")
        file = self.cluster.machine(replica.node_id).disk.open(batch.path)
        file.pwrite(data, batch.position)


@contextmanager
def watched() -> Iterator[World]:
    with SimCluster(3, seed=1, properties=PROPERTIES) as cluster:
        world = World(cluster)
        cluster.run(world.begin())
        yield world
