"""The live page: how soon it tells what happened, and what an open page costs a broker. By itself: it takes minutes.

python -m benchmarks.page [--partitions 50] [--rounds 6] [--records 500]

Three brokers under a steady load. *Latency* is from the event, by the clock of the node that tells it, to the line of
the stream that a browser reads; of offsets, from the acknowledgement of a write to the line that shows it. *Cost* is
the CPU of each broker while a page is open less that while none is, in rounds that alternate, the same records a second
in each: lines are thrown away unread, since the load comes from the process that would read them.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.processes import cluster_up, cpu_seconds, free_port, free_ports
from tidelog.broker.clock import SystemWallClock
from tidelog.client.client import Client
from tidelog.client.producer import Producer
from tidelog.client.topics import create_topic
from tidelog.cluster.control import call
from tidelog.cluster.layout import ClusterDir
from tidelog.wire.records.plain import Record

TOPIC: Final = "orders"
NODES: Final = 3
ROUND_S: Final = 6.0
SETTLE_S: Final = 4.0  # longer than the page's sources linger after the last page
WRITES: Final = 40
BURST_S: Final = 0.02
CLOCK: Final = SystemWallClock()
# What nodes tell by themselves; a node's state comes from the supervisor.
TOLD: Final = ("election", "isr", "quorum", "topic")
# Between two faults: what one brings about is told before the next, and not counted as its own.
PACE_S: Final = 1.5
# The first lines have everything, and are no measure of what comes after.
CALM_S: Final = 2.0


class Page:
    """Its address, and what a browser does."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self.port = parts.port
        self.token = parts.fragment.removeprefix("token=")

    @asynccontextmanager
    async def stream(self, heard: Callable[[dict[str, Any]], None] | None) -> AsyncIterator[None]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=64 * 1024 * 1024)
        writer.write(f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())

        async def listen() -> None:
            async for line in reader:
                if heard is not None and line.startswith(b"data: "):
                    heard(json.loads(line[6:]))

        listening = asyncio.create_task(listen())
        try:
            yield
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            writer.close()

    async def press(self, **command: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(command)
        writer.write(
            f"POST /api/command HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Tidelog-Token: {self.token}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        answer = await reader.read()
        writer.close()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())


@asynccontextmanager
async def load(bootstrap: str, partitions: int, per_second: int) -> AsyncIterator[Callable[[], int]]:
    """So many records a second, each to a partition drawn by lot; yields what tells how many were acknowledged."""
    acknowledged = 0

    async def write() -> None:
        nonlocal acknowledged
        rng = random.Random(1)
        loop = asyncio.get_running_loop()
        async with Client(bootstrap) as client:
            producer = Producer(client)
            each = round(per_second * BURST_S)
            due_s = loop.time()
            while True:
                await asyncio.gather(
                    *(producer.send(TOPIC, rng.randrange(partitions), [record(bytes(100))]) for _ in range(each))
                )
                acknowledged += each
                # By the clock: a burst that took longer is made up for.
                due_s += BURST_S
                await asyncio.sleep(due_s - loop.time())

    writing = asyncio.create_task(write())
    try:
        yield lambda: acknowledged
        if writing.done():
            writing.result()
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


def record(value: bytes) -> Record:
    return Record(timestamp=CLOCK.now_ms(), key=None, value=value)


async def every_replica(page: Page, partitions: int) -> None:
    """Until every node has told of its replica of every partition: brokers make logs behind the acknowledgement."""
    whole: set[int] = set()
    done = asyncio.Event()

    def heard(message: dict[str, Any]) -> None:
        whole.update(row[1] for row in message.get("partitions", ()) if row[0] == TOPIC and len(row[12]) == NODES)
        if len(whole) == partitions:
            done.set()

    async with page.stream(heard):
        await done.wait()


async def event_latency(page: Page, rounds: int) -> list[float]:
    """In ms, of what nodes tell while each is killed and started in turn."""
    found: list[float] = []
    seen: set[int] = set()
    began_ms = CLOCK.now_ms()

    def heard(message: dict[str, Any]) -> None:
        for entry in message.get("timeline", ()):
            if entry["id"] not in seen and entry["kind"] in TOLD and entry["time_ms"] >= began_ms:
                found.append(CLOCK.now_ms() - entry["time_ms"])
            seen.add(entry["id"])

    async with page.stream(heard):
        await asyncio.sleep(CALM_S)
        for turn in range(rounds):
            node = turn % NODES + 1
            await page.press(command="kill", node=node)
            await asyncio.sleep(PACE_S)
            await page.press(command="start", node=node)
            await asyncio.sleep(PACE_S)
    return found


async def offset_latency(page: Page, bootstrap: str) -> list[float]:
    """In ms, from an acknowledgement to the line that shows the record as committed."""
    found: list[float] = []
    shown = 0
    news = asyncio.Event()

    def heard(message: dict[str, Any]) -> None:
        nonlocal shown
        for row in message.get("partitions", ()):
            if row[0] == TOPIC and row[1] == 0:
                shown = max(shown, *(replica[4] for replica in row[12] if replica[0] == row[2]), 0)
                news.set()

    loop = asyncio.get_running_loop()
    async with page.stream(heard), Client(bootstrap) as client:
        producer = Producer(client)
        await asyncio.sleep(CALM_S)
        for _ in range(WRITES):
            offset = await producer.send(TOPIC, 0, [record(b"x")])
            acknowledged_s = loop.time()
            while shown <= offset:
                news.clear()
                await news.wait()
            found.append(1000 * (loop.time() - acknowledged_s))
            await asyncio.sleep(random.Random(offset).uniform(0.05, 0.3))
    return found


class Cost:
    """Percent of a core for each broker and round, and records a second in each."""

    def __init__(self, page: Page, pids: list[int], acknowledged: Callable[[], int]) -> None:
        self.closed: list[float] = []
        self.added: list[float] = []
        self.records_closed: list[float] = []
        self.records_open: list[float] = []
        self._page = page
        self._pids = pids
        self._acknowledged = acknowledged

    async def measure(self, rounds: int) -> None:
        for turn in range(rounds):
            # Each goes first as often as the other: what changes with time favours neither.
            if turn % 2:
                opened, closed = await self._open(), await self._closed()
            else:
                closed, opened = await self._closed(), await self._open()
            self.closed += closed
            self.added += [now - then for now, then in zip(opened, closed, strict=True)]

    async def _closed(self) -> list[float]:
        await asyncio.sleep(SETTLE_S)
        return await self._spent(self.records_closed)

    async def _open(self) -> list[float]:
        async with self._page.stream(None):
            # What a page gets first it gets once.
            await asyncio.sleep(CALM_S)
            return await self._spent(self.records_open)

    async def _spent(self, records: list[float]) -> list[float]:
        before, acknowledged = [cpu_seconds(pid) for pid in self._pids], self._acknowledged()
        await asyncio.sleep(ROUND_S)
        records.append((self._acknowledged() - acknowledged) / ROUND_S)
        return [100 * (cpu_seconds(pid) - was) / ROUND_S for pid, was in zip(self._pids, before, strict=True)]


def line(name: str, unit: str, values: list[float], quantile: float = 0.5) -> str:
    middle = statistics.quantiles(values, n=100)[round(100 * quantile) - 1] if len(values) > 1 else values[0]
    return f"{name:<58} {middle:>7.2f} {unit}   ({min(values):.2f} to {max(values):.2f}, {len(values)} values)"


async def measure(url: str, data: Path, bootstrap: str, options: argparse.Namespace) -> None:
    page = Page(url)
    async with Client(bootstrap) as client:
        await create_topic(client, TOPIC, partitions=options.partitions, replication_factor=NODES)
    await every_replica(page, options.partitions)
    pids = [node["pid"] for node in call(ClusterDir(data), "status")["nodes"]]
    print(f"{NODES} brokers x {options.partitions} partitions, {options.records} records/s, acks=all")
    async with load(bootstrap, options.partitions, options.records) as acknowledged:
        cost = Cost(page, pids, acknowledged)
        await cost.measure(options.rounds)
    print(line("records/s, no page open, median", "", cost.records_closed))
    print(line("records/s, a page open, median", "", cost.records_open))
    print(line("CPU of a broker, no page open, median", "%", cost.closed))
    print(line("what an open page adds, median", "%", cost.added))
    print(f"{'what an open page adds, mean':<58} {statistics.mean(cost.added):>7.2f} %")
    offsets = await offset_latency(page, bootstrap)
    print(line("acknowledged to shown, median", "ms", offsets))
    print(line("acknowledged to shown, p95", "ms", offsets, 0.95))
    events = await event_latency(page, options.rounds)
    print(line("event to stream, median", "ms", events))
    print(line("event to stream, p95", "ms", events, 0.95))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--records", type=int, default=500, help="a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        data = Path(directory) / "data"
        with cluster_up(data, free_ports(NODES), free_port()) as ready:
            asyncio.run(measure(ready["ui"], data, ready["bootstrap"], options))


if __name__ == "__main__":
    main()
