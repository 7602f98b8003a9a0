"""A leader, and then the active controller, is killed and comes back, under clients that are not ours.

Three replicas, min ISR 2, acks=all, an idempotent producer: what was acknowledged is read, where it was said to be,
once and in the order in which it was sent.
"""

import asyncio
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.clients.waiting import wait_until

from tidelog.client.client import Client
from tidelog.client.quorum import describe_quorum
from tidelog.testing import Cluster

TOPIC = "orders"
PARTITIONS = 3
NODES = (1, 2, 3)
# Records a second, and what every partition must gain before the story goes on.
RATE = 500
MORE = 50
# librdkafka waits up to ten seconds before it connects again to a broker that was gone twice.
SECONDS = 60

# Partition and offset; and the value there.
Place = tuple[int, int]
Found = tuple[Place, str]


class Program(Protocol):
    """A program under way, and what it told of each record: acknowledged, or read."""

    process: subprocess.Popen[str]

    def places(self) -> Iterable[Place]: ...


@contextmanager
def three_brokers() -> Iterator[Cluster]:
    with Cluster(brokers=len(NODES)) as running:
        running.create_topic(
            TOPIC, partitions=PARTITIONS, replication_factor=len(NODES), config={"min.insync.replicas": "2"}
        )
        yield running


def active_controller(cluster: Cluster) -> int:
    async def ask() -> int:
        async with Client(cluster.bootstrap) as client:
            return (await describe_quorum(client)).leader_id

    return asyncio.run(ask())


def by_partition(program: Program) -> Counter[int]:
    assert program.process.poll() is None, f"ended before it was asked to: {program.process.args!r}"
    return Counter(partition for partition, _ in program.places())


def wait_more(what: str, *programs: Program) -> None:
    """Until every partition has had more, in the eyes of all."""
    goals = [(program, by_partition(program)) for program in programs]

    def reached() -> bool:
        return all(
            now[number] >= before[number] + MORE
            for now, before in ((by_partition(program), before) for program, before in goals)
            for number in range(PARTITIONS)
        )

    wait_until(reached, f"more records in every partition, {what}", SECONDS)


def kill_and_bring_back(cluster: Cluster, *programs: Program) -> None:
    """The leader of a partition, then the active controller; the clients are waited for at every step."""
    wait_more("at first", *programs)
    leader = cluster.leader(TOPIC, 0)
    cluster.kill(leader)
    cluster.wait_leader(TOPIC, 0, not_in=[leader])
    wait_more("while a leader is dead", *programs)
    bring_back(cluster, leader)
    wait_more("after the leader is back", *programs)
    controller = active_controller(cluster)
    cluster.kill(controller)
    wait_more("while the controller that was active is dead", *programs)
    assert active_controller(cluster) != controller
    bring_back(cluster, controller)
    wait_more("after the controller is back", *programs)


def bring_back(cluster: Cluster, node: int) -> None:
    cluster.start(node)
    for number in range(PARTITIONS):
        cluster.wait_isr(TOPIC, number, NODES)


def check_log(records: list[Found], acknowledged: set[Place], sent: int) -> None:
    """`records` as a reader got them from the beginning; values are the numbers below `sent`, in the order sent."""
    by_partition: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (partition, offset), value in records:
        by_partition[partition].append((offset, int(value)))
    assert sorted(by_partition) == list(range(PARTITIONS))
    for number, found in by_partition.items():
        offsets, values = [offset for offset, _ in found], [value for _, value in found]
        assert offsets == sorted(set(offsets)), f"partition {number}: offsets repeat or go back"
        assert values == sorted(set(values)), f"partition {number}: values repeat or are not in the order sent"
    places = {place for place, _ in records}
    assert acknowledged <= places, f"acknowledged and not there: {sorted(acknowledged - places)[:10]}"
    assert Counter(int(value) for _, value in records) == Counter(range(sent)), "lost, or there twice"
