"""The demo's story: one broker in a temporary directory, writers, a SIGKILL, a restart, and the count."""

import asyncio
import tempfile
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
from tidelog.client.topics import create_topic
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.plan import ClusterRequest
from tidelog.cluster.supervisor import Supervisor
from tidelog.core.ids import TopicPartition
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
WRITERS: Final = 4
BATCH: Final = 50
_KILL_AT: Final = 0.45
_DOWN_S: Final = 0.7
_REFRESH_S: Final = 0.1
# A writer pauses between batches so that the demo shows a story and not how fast a laptop is.
_PAUSE_S: Final = 0.01


@dataclass(slots=True)
class _Score:
    """What the writers know: how many of its records each was promised."""

    acknowledged: list[int] = field(default_factory=lambda: [0] * WRITERS)
    node: str = "starting"
    # The longest a writer had to wait for one answer: the broker's absence as a client sees it.
    longest_wait_s: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.acknowledged)


def tell(seconds: float) -> None:
    """Runs the whole story; ClusterError when it does not end well."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        asyncio.run(_story(console, Path(directory), seconds))


async def _story(console: Console, directory: Path, seconds: float) -> None:
    console.print(Text("Tidelog demo: kill a broker in the middle of a load, lose nothing\n", style="bold"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    supervisor = await Supervisor.create(ClusterRequest(data=directory, free_ports=True))
    try:
        await supervisor.start_all()
        console.print(f"1. a broker is up on {supervisor.bootstrap} after {loop.time() - began:.1f} s")
        async with Client(supervisor.bootstrap, retry_timeout_s=60) as client:
            await create_topic(client, TOPIC, partitions=WRITERS, config={"min.insync.replicas": "1"})
            console.print(f"2. {WRITERS} writers send to topic {TOPIC!r} with acks=all for {seconds:g} s")
            score = await _write_through_a_kill(console, supervisor, client, seconds)
            _, missing, doubled = await _count(console, client, score)
        if missing or doubled:
            raise ClusterError(f"{missing} acknowledged records are missing, {doubled} are there twice")
    finally:
        await supervisor.stop_all()
        supervisor.close()
    _farewell(console)


async def _write_through_a_kill(console: Console, supervisor: Supervisor, client: Client, seconds: float) -> _Score:
    score = _Score(node="running")
    stop = asyncio.Event()
    with Live(_picture(score), console=console, transient=True, auto_refresh=False) as live:
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(_write(client, writer, score, stop))
            painter = group.create_task(_paint(live, score))
            try:
                await asyncio.sleep(seconds * _KILL_AT)
                before = score.total
                await supervisor.kill(1)
                score.node = "killed"
                console.print(f"3. SIGKILL to node 1 after {before} acknowledged records: no flush, no goodbye")
                await asyncio.sleep(_DOWN_S)
                score.node = "starting"
                loop = asyncio.get_running_loop()
                restart = loop.time()
                await supervisor.start(1)
                score.node = "running"
                console.print(
                    f"4. node 1 is back after {loop.time() - restart:.1f} s, its log recovered; writers go on"
                )
                await asyncio.sleep(seconds * (1 - _KILL_AT))
            finally:
                stop.set()
                painter.cancel()
    console.print(
        f"5. {score.total} records acknowledged in all; the longest any writer waited: {score.longest_wait_s:.1f} s"
    )
    return score


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


async def _paint(live: Live, score: _Score) -> None:
    while True:
        live.update(_picture(score), refresh=True)
        await asyncio.sleep(_REFRESH_S)


def _picture(score: _Score) -> Table:
    table = Table.grid(padding=(0, 2))
    style = "green" if score.node == "running" else "red bold"
    table.add_row("   node 1", Text(score.node, style=style))
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
    console.print(Text.assemble(f"6. read back {total} records: {missing} missing, {doubled} doubled: ", verdict))
    return total, missing, doubled


def _farewell(console: Console) -> None:
    console.print("\nWhat to try next:")
    for command, words in (
        ("tidelog up", "a broker to keep, on localhost:9092, for any Kafka client"),
        ("seq 1000 | tidelog produce numbers", "lines as records"),
        ("tidelog consume numbers --from-beginning --max 5", "and back"),
        ("tidelog chaos kill 1", "do to your own what this demo did"),
        ("tidelog dump tidelog-data/node-1/data/numbers-0/*.log --records", "what is on disk, in words"),
    ):
        console.print(Text.assemble("  ", (command, "bold"), f"   {words}"))
