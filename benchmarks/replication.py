"""Does replication keep up: lag under sustained load, and how fast an empty follower catches up.

python -m benchmarks.replication [--seconds 10] [--megabytes 1000] [--rounds 5]
python -m benchmarks.replication --only catch-up --batch-bytes 16384    # batches as Java's producer makes them

Load: librdkafka, 1 KB records, acks=all, idempotent, three brokers, three replicas, min ISR 2, as fast as it goes.
Meanwhile the replicas are asked, as `tidelog replicas` does, how far behind their leaders they are. That lag must not
grow: that of the last third of the time is compared with that of the first.

Catch-up: partitions with one replica get a second one on a broker that has nothing of them. The time from asking for
that to the last of them in sync, against a raw copy of the same bytes over loopback to files, in turns with it: the
ratio is what counts (goal: 0.5). CPU seconds are those of the two brokers, or of the two ends of the copy, and tell
more than the clock when the machine has other work.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from time import sleep
from typing import Final

from confluent_kafka import Producer

from benchmarks.copying import raw_copy
from benchmarks.memory import warm
from benchmarks.processes import cpu_seconds
from tidelog.client.client import Client
from tidelog.client.reassignments import alter_reassignments, wait_reassigned
from tidelog.client.replicas import ReplicaObserver
from tidelog.core.ids import TopicPartition
from tidelog.testing import Cluster

OUT: Final = Path(__file__).parent / "out"
NODES: Final = (1, 2, 3)
RECORD: Final = 1000
LOADED: Final = "loaded"
LOADED_PARTITIONS: Final = 6
LOOK_EVERY_S: Final = 0.1
BULK: Final = "bulk"
BULK_PARTITIONS: Final = 4
LEADER: Final = 1
FOLLOWER: Final = 2
IN_SYNC_S: Final = 120.0
GOALS: Final = {"ratio": "   (goal: 0.5)"}
# Page cache of the copy, and what the allocator may take instead.
WARM_FACTOR: Final = 2
# Files of a replica that was moved away are gone before the next round.
CONFIG: Final = {"log.segment.delete.delay.ms": "0"}


@dataclass
class Lags:
    """Of all followers of a topic, each time they were looked at: the worst one, when, in records and milliseconds."""

    at_s: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    ms: list[int] = field(default_factory=list)
    out_of_sync: int = 0

    def thirds(self, values: Sequence[int]) -> tuple[float, float]:
        """The medians of the first and the last third."""
        size = max(1, len(values) // 3)
        return statistics.median(values[:size]), statistics.median(values[-size:])


async def watch(bootstrap: str, done: asyncio.Event) -> Lags:
    lags, began_s = Lags(), now_s()
    async with Client(bootstrap) as client:
        observer = ReplicaObserver(client, LOADED)
        while not done.is_set():
            partitions = await observer.look()
            followers = [each for view in partitions for each in view.replicas if not each.is_leader]
            lags.at_s.append(now_s() - began_s)
            lags.records.append(max(each.lag or 0 for each in followers))
            lags.ms.append(max(each.last_caught_up_ms or 0 for each in followers))
            lags.out_of_sync += sum(not each.in_isr for each in followers)
            await asyncio.sleep(LOOK_EVERY_S)
    return lags


async def load(cluster: Cluster, seconds: float, acks: str) -> tuple[dict[str, float], Lags]:
    """What the producer did, and what the replicas were behind meanwhile."""
    command = [sys.executable, "-m", "benchmarks.sustained", cluster.bootstrap, LOADED, str(LOADED_PARTITIONS)]
    process = await asyncio.create_subprocess_exec(
        *command, str(seconds), str(RECORD), acks, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    if (await process.stdout.readline()).strip() != b"ready":
        raise RuntimeError("the producer did not start")
    done = asyncio.Event()
    watching = asyncio.create_task(watch(cluster.bootstrap, done))
    told: dict[str, float] = json.loads(await process.stdout.readline())
    done.set()
    await process.wait()
    if told["left"] or told["failed"]:
        raise RuntimeError(f"the producer lost records: {told}")
    return told, await watching


def cpu(cluster: Cluster, *nodes: int) -> float:
    pids = [cluster.pid(node) for node in nodes]
    return sum(cpu_seconds(pid) for pid in pids if pid is not None)


def measure_load(seconds: float, acks: str) -> dict[str, float]:
    with Cluster(brokers=len(NODES), config=CONFIG) as cluster:
        cluster.create_topic(
            LOADED,
            partitions=LOADED_PARTITIONS,
            replication_factor=len(NODES),
            config={"min.insync.replicas": "2"},
        )
        before_s = cpu(cluster, *NODES)
        told, lags = asyncio.run(load(cluster, seconds, acks))
        spent_s = cpu(cluster, *NODES) - before_s
    gigabytes = told["records"] * RECORD / 1e9
    first, last = lags.thirds(lags.records)
    first_ms, last_ms = lags.thirds(lags.ms)
    return {
        "records/s": told["records"] / told["seconds"],
        "MB/s": gigabytes * 1000 / told["seconds"],
        "CPU s/GB of all three brokers": spent_s / gigabytes,
        "looks": len(lags.records),
        "lag, records: median": statistics.median(lags.records),
        "lag, records: worst": max(lags.records),
        "lag, records: first third": first,
        "lag, records: last third": last,
        "lag, ms: median": statistics.median(lags.ms),
        "lag, ms: worst": max(lags.ms),
        "lag, ms: first third": first_ms,
        "lag, ms: last third": last_ms,
        "replicas seen out of the ISR": lags.out_of_sync,
    }


# --- catching up ---


def fill(cluster: Cluster, megabytes: int, batch_bytes: int) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "batch.size": batch_bytes, "acks": "all"}
    )
    value = b"x" * RECORD
    for number in range(megabytes * 1000):
        while True:
            try:
                # A run of records each: so that batches are full.
                producer.produce(BULK, value, partition=number // 1000 % BULK_PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(60):
        raise RuntimeError("the topic could not be filled")


def segments(cluster: Cluster, node: int) -> list[Path]:
    return sorted((cluster.directory / f"node-{node}" / "data").glob(f"{BULK}-*/*.log"))


async def reassign(bootstrap: str, replicas: list[int]) -> None:
    async with Client(bootstrap) as client:
        wanted = {TopicPartition(BULK, number): replicas for number in range(BULK_PARTITIONS)}
        await alter_reassignments(client, wanted)


async def settle(bootstrap: str) -> None:
    async with Client(bootstrap) as client:
        await wait_reassigned(client, [TopicPartition(BULK, number) for number in range(BULK_PARTITIONS)])


def copied(cluster: Cluster) -> int:
    return sum(path.stat().st_size for path in segments(cluster, FOLLOWER))


def catch_up(cluster: Cluster, size: int) -> tuple[float, float]:
    """Seconds until the follower is in sync everywhere, and CPU seconds of leader and follower."""
    before_s, began_s = cpu(cluster, LEADER, FOLLOWER), now_s()
    asyncio.run(reassign(cluster.bootstrap, [LEADER, FOLLOWER]))
    # Its files first: brokers that are asked all the time have less time to copy.
    while copied(cluster) < size:
        if now_s() > began_s + IN_SYNC_S:
            raise RuntimeError(f"the follower has {copied(cluster)} bytes of {size}")
        sleep(LOOK_EVERY_S / 10)
    for number in range(BULK_PARTITIONS):
        cluster.wait_isr(BULK, number, [LEADER, FOLLOWER], timeout=IN_SYNC_S)
    return now_s() - began_s, cpu(cluster, LEADER, FOLLOWER) - before_s


def empty_again(cluster: Cluster) -> None:
    asyncio.run(reassign(cluster.bootstrap, [LEADER]))
    asyncio.run(settle(cluster.bootstrap))
    deadline_s = now_s() + IN_SYNC_S
    while segments(cluster, FOLLOWER):
        if now_s() > deadline_s:
            raise RuntimeError("the files of the replica that was moved away are still there")
        sleep(0.05)


def measure_catch_up(megabytes: int, batch_bytes: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ("ratio", "MB/s", "raw MB/s", "CPU s/GB", "raw CPU s/GB")}
    with tempfile.TemporaryDirectory() as other, Cluster(brokers=len(NODES), config=CONFIG) as cluster:
        cluster.create_topic(BULK, partitions=BULK_PARTITIONS, replication_factor=1)
        asyncio.run(reassign(cluster.bootstrap, [LEADER]))
        asyncio.run(settle(cluster.bootstrap))
        fill(cluster, megabytes, batch_bytes)
        sources = segments(cluster, LEADER)
        size = sum(path.stat().st_size for path in sources)
        # One round more than counted: code and connections are new in the first.
        for number in range(rounds + 1):
            warm(WARM_FACTOR * size)
            raw_s, raw_cpu_s = raw_copy(sources, Path(other) / "copy")
            warm(WARM_FACTOR * size)
            took_s, cpu_s = catch_up(cluster, size)
            empty_again(cluster)
            progress(
                f"{size / took_s / 1e6:.0f} MB/s with {cpu_s / size * 1e9:.2f} s/GB, raw copy "
                f"{size / raw_s / 1e6:.0f} MB/s with {raw_cpu_s / size * 1e9:.2f} s/GB: {raw_s / took_s:.2f}"
                + ("" if number else " (not counted)")
            )
            if number:
                found["ratio"].append(raw_s / took_s)
                found["MB/s"].append(size / took_s / 1e6)
                found["raw MB/s"].append(size / raw_s / 1e6)
                found["CPU s/GB"].append(cpu_s / size * 1e9)
                found["raw CPU s/GB"].append(raw_cpu_s / size * 1e9)
    return found


def progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=["load", "catch-up"], help="one of the two (default both)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load (default %(default)s)")
    parser.add_argument("--acks", default="all", help="of the load's producer (default %(default)s)")
    parser.add_argument("--megabytes", type=int, default=1000, help="to catch up with (default %(default)s)")
    parser.add_argument("--batch-bytes", type=int, default=1_000_000, help="of those (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of catching up and copying (default %(default)s)")
    options = parser.parse_args()
    results: dict[str, object] = {}
    if options.only != "catch-up":
        results["load"] = load_found = measure_load(options.seconds, options.acks)
        for name, value in load_found.items():
            print(f"load: {name:<36} {value:>12,.1f}")
    if options.only != "load":
        found = measure_catch_up(options.megabytes, options.batch_bytes, options.rounds)
        results["catch-up"] = found
        for name, values in found.items():
            spread = f"{min(values):.3g} to {max(values):.3g}"
            print(f"catch-up: {name:<32} {statistics.median(values):>12.2f}   {spread}" + GOALS.get(name, ""))
    OUT.mkdir(exist_ok=True)
    (OUT / "replication.json").write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
