"""How well a throttled reassignment keeps to its rate, on real processes (C8; the goal is within 10%).

python -m benchmarks.reassignment [--megabytes 60] [--rates 2,5,10]

One partition is filled, and moved to another broker at each rate in turn. The rate is the bytes copied by the time from
the first byte in the new replica to its place in the ISR, looked at from outside, in its segment files.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

from confluent_kafka import Producer

from tidelog.client.client import Client
from tidelog.client.reassignments import alter_reassignments
from tidelog.client.throttles import remove_rates, remove_throttle, set_throttle
from tidelog.core.ids import TopicPartition
from tidelog.testing import Cluster

OUT: Final = Path(__file__).parent / "out"
TOPIC: Final = "moved"
PARTITION: Final = TopicPartition(TOPIC, 0)
NODES: Final = (1, 2, 3)
MEGABYTE: Final = 1_000_000
LOOK_EVERY_S: Final = 0.01


def fill(cluster: Cluster, megabytes: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for _ in range(megabytes * 100):
        producer.produce(TOPIC, bytes(MEGABYTE // 100), partition=0)
        producer.poll(0)
        if len(producer) > 1000:
            producer.poll(0.01)
    assert producer.flush(60) == 0


def copied(cluster: Cluster, node: int) -> int:
    segments = (cluster.directory / f"node-{node}" / "data" / f"{TOPIC}-0").glob("*.log")
    return sum(segment.stat().st_size for segment in segments)


async def _begin(bootstrap: str, old: int, new: int, rate: int) -> None:
    async with Client(bootstrap) as client:
        await set_throttle(client, TOPIC, 0, old=[old], new=[new], bytes_per_second=rate)
        await alter_reassignments(client, {PARTITION: [new]})


async def _end(bootstrap: str) -> None:
    async with Client(bootstrap) as client:
        await remove_rates(client, await remove_throttle(client, TOPIC, 0))


def sizes(cluster: Cluster, node: int, whole: int) -> Iterator[tuple[float, int]]:
    """What the new replica holds, and when, from its first byte to its last."""
    size = 0
    while size < whole:
        size = copied(cluster, node)
        if size:
            yield now_s(), size
        time.sleep(LOOK_EVERY_S)


def move(cluster: Cluster, target: int, rate: int) -> float:
    old = cluster.leader(TOPIC, 0)
    whole = copied(cluster, old)
    asyncio.run(_begin(cluster.bootstrap, old, target, rate))
    seen = list(sizes(cluster, target, whole))
    cluster.wait_isr(TOPIC, 0, [target], timeout=60)
    asyncio.run(_end(cluster.bootstrap))
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    return (last - first) / (last_s - first_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--rates", default="2,5,10", help="in megabytes per second")
    options = parser.parse_args()
    results: dict[str, float] = {}
    with Cluster(brokers=len(NODES)) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=1)
        fill(cluster, options.megabytes)
        for text in options.rates.split(","):
            rate = int(float(text) * MEGABYTE)
            target = cluster.leader(TOPIC, 0) % len(NODES) + 1
            measured = move(cluster, target, rate)
            results[text] = measured / MEGABYTE
            print(f"asked for {rate / MEGABYTE:6.2f} MB/s, measured {measured / MEGABYTE:6.2f} ({measured / rate:.1%})")
    OUT.mkdir(exist_ok=True)
    (OUT / "reassignment.json").write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
