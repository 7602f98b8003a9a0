"""The demo's story: three brokers in a temporary directory, writers, a SIGKILL to a leader, its return, the count."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidelog.broker.clock import SystemWallClock
from tidelog.client.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.topics import PartitionDescription, create_topic, describe_topic
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.states import NodeState
from tidelog.cluster.supervisor import Supervisor
from tidelog.core.ids import TopicPartition
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
BROKERS: Final = 3
WRITERS: Final = 4
BATCH: Final = 50
_KILL_AT: Final = 0.45
_POLL_S: Final = 0.01
# Longer than any election or catching up takes on a busy machine: after it the story ends badly.
_PATIENCE_S: Final = 60.0
_REFRESH_S: Final = 0.1
# A writer pauses between batches so that the demo shows a story and not how fast a laptop is.
_PAUSE_S: Final = 0.01


@dataclass(slots=True)
class _Score:
    """What the writers know: how many of its records each was promised."""

    acknowledged: list[int] = field(default_factory=lambda: [0] * WRITERS)
    # The longest a writer had to wait for one answer: the leader's absence as a client sees it.
    longest_wait_s: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.acknowledged)


def tell(seconds: float) -> None:
    """Runs the whole story; ClusterError when it does not end well."""
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        asyncio.run(_story(console, Path(directory), seconds))


async def _story(console: Console, directory: Path, seconds: float) -> None:
    console.print(Text("Tidelog demo: kill a leader in the middle of a load, lose nothing\n", style="bold"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    supervisor = await Supervisor.create(ClusterRequest(data=directory, brokers=BROKERS, free_ports=True))
    try:
        await supervisor.start_all()
        console.print(f"1. {BROKERS} brokers are up on {supervisor.bootstrap} after {loop.time() - began:.1f} s")
        async with Client(supervisor.bootstrap, retry_timeout_s=60) as client:
            await create_topic(client, TOPIC, partitions=WRITERS, config={"min.insync.replicas": "2"})
            console.print(
                f"2. {WRITERS} writers send to topic {TOPIC!r} for {seconds:g} s: {BROKERS} replicas, acks=all, "
                "min.insync.replicas=2"
            )
            score = await _write_through_a_kill(console, supervisor, client, seconds)
            _, missing, doubled = await _count(console, client, score)
        if missing or doubled:
            raise ClusterError(f"{missing} acknowledged records are missing, {doubled} are there twice")
    finally:
        # Nobody will read this data again, so nobody waits for an orderly end of it.
        await supervisor.kill_all()
        supervisor.close()
    _farewell(console)


async def _write_through_a_kill(console: Console, supervisor: Supervisor, client: Client, seconds: float) -> _Score:
    score = _Score()
    stop = asyncio.Event()
    with Live(_picture(supervisor, score), console=console, transient=True, auto_refresh=False) as live:
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(_write(client, writer, score, stop))
            painter = group.create_task(_paint(live, supervisor, score))
            try:
                await asyncio.sleep(seconds * _KILL_AT)
                await _kill_a_leader(console, supervisor, client, score)
                await asyncio.sleep(seconds * (1 - _KILL_AT))
            finally:
                stop.set()
                painter.cancel()
    console.print(
        f"6. {score.total} records acknowledged in all; the longest any writer waited: {score.longest_wait_s:.1f} s"
    )
    return score


async def _kill_a_leader(console: Console, supervisor: Supervisor, client: Client, score: _Score) -> None:
    loop = asyncio.get_running_loop()
    partitions = (await describe_topic(client, TOPIC)).partitions
    leader = partitions[0].leader
    led = sum(partition.leader == leader for partition in partitions)
    before, killed = score.total, loop.time()
    await supervisor.kill(leader)
    console.print(
        f"3. SIGKILL to node {leader}, which leads {led} of {WRITERS} partitions, after {before} acknowledged "
        "records: no flush, no goodbye"
    )
    await _until(client, lambda found: found.leader not in (-1, leader))
    console.print(f"4. other in-sync replicas lead after {loop.time() - killed:.1f} s; writers go on")
    restart = loop.time()
    await supervisor.start(leader)
    await _until(client, lambda found: len(found.isr) == BROKERS)
    console.print(f"5. node {leader} is back and in sync with its leaders {loop.time() - restart:.1f} s later")


async def _until(client: Client, holds: Callable[[PartitionDescription], bool]) -> None:
    """Waits until every partition is as it should be."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not all(holds(found) for found in (await describe_topic(client, TOPIC)).partitions):
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise ClusterError(f"the cluster did not recover within {_PATIENCE_S:g} s") from None


async def _write(client: Client, writer: int, score: _Score, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    clock = SystemWallClock()
    producer = Producer(client)
    sent = 0
    while not stop.is_set():
        records = [
            Record(timestamp=clock.now_ms(), value=b"%d:%d" % (writer, number)) for number in range(sent, sent + BATCH)
        ]
        asked = loop.time()
        await producer.send(TOPIC, writer, records)
        score.longest_wait_s = max(score.longest_wait_s, loop.time() - asked)
        sent += BATCH
        score.acknowledged[writer] = sent
        await asyncio.sleep(_PAUSE_S)


async def _paint(live: Live, supervisor: Supervisor, score: _Score) -> None:
    while True:
        live.update(_picture(supervisor, score), refresh=True)
        await asyncio.sleep(_REFRESH_S)


def _picture(supervisor: Supervisor, score: _Score) -> Table:
    table = Table.grid(padding=(0, 2))
    for node in supervisor.status():
        style = "green" if node.state == NodeState.RUNNING.value else "red bold"
        table.add_row(f"   node {node.id}", Text(node.state, style=style))
    table.add_row("   acknowledged", Text(f"{score.total:>8}"))
    return table


async def _count(console: Console, client: Client, score: _Score) -> tuple[int, int, int]:
    """Reads everything back and compares it with what was promised."""
    consumer = Consumer(client, max_wait_ms=100)
    consumer.assign({TopicPartition(TOPIC, writer): 0 for writer in range(WRITERS)})
    seen: list[dict[bytes, int]] = [{} for _ in range(WRITERS)]
    while True:
        found = await consumer.poll()
        for consumed in found:
            assert consumed.record.value is not None
            values = seen[consumed.tp.partition]
            values[consumed.record.value] = values.get(consumed.record.value, 0) + 1
        at_end = all(consumer.high_watermarks.get(tp) == position for tp, position in consumer.positions.items())
        if not found and at_end:
            break
    total = sum(len(values) for values in seen)
    missing = sum(
        b"%d:%d" % (writer, number) not in seen[writer]
        for writer in range(WRITERS)
        for number in range(score.acknowledged[writer])
    )
    doubled = sum(count > 1 for values in seen for count in values.values())
    verdict = Text("nothing lost, nothing twice" if not missing and not doubled else "NOT what was promised")
    verdict.stylize("green bold" if not missing and not doubled else "red bold")
    console.print(Text.assemble(f"7. read back {total} records: {missing} missing, {doubled} doubled: ", verdict))
    return total, missing, doubled


def _farewell(console: Console) -> None:
    console.print("\nWhat to try next:")
    for command, words in (
        ("tidelog up", "three brokers to keep, on localhost:9092 to 9094, for any Kafka client"),
        ("seq 1000 | tidelog produce numbers", "lines as records"),
        ("tidelog consume numbers --from-beginning --max 5", "and back"),
        ("tidelog chaos kill 1", "do to your own what this demo did"),
        ("tidelog topics describe numbers", "who leads, who is in sync"),
        ("tidelog quorum describe", "who decides"),
        ("tidelog dump tidelog-data/node-1/data/numbers-0/*.log --records", "what is on disk, in words"),
    ):
        console.print(Text.assemble("  ", (command, "bold"), f"   {words}"))
