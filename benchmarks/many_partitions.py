"""Many partitions on three nodes: how the metadata grows. By itself, not with every `make bench`: it takes minutes.

python -m benchmarks.many_partitions [--sizes 1000,3000,10000]

Topics of ten partitions with three replicas each, made through the API; then what that costs: time, memory, bytes of a
snapshot, starts. Each size on a cluster of its own. Growth is printed as the cost per partition, of that at the size
before: 1.0 is linear.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks.processes import cpu_seconds, resident_mb
from tidelog.client.client import Client
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.metadata.image import Provenance
from tidelog.metadata.loader import MetadataLoader
from tidelog.metadata.records import unframe
from tidelog.quorum.snapshot_files import SnapshotReader
from tidelog.storage.posix import PosixDisk
from tidelog.testing import Cluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

OUT: Final = Path(__file__).parent / "out"
NODES: Final = 3
PER_TOPIC: Final = 10
TOPICS_A_REQUEST: Final = 50
LOGS_S: Final = 300.0
SNAPSHOT_S: Final = 60.0
_SETTINGS: Final = ConnectionSettings(client_id="benchmarks", request_timeout_s=120.0)
# Written as soon as anything is: for a measure of the file, not of a cluster anybody would run.
_SNAPSHOT_AT_ONCE: Final = {"metadata.log.max.record.bytes.between.snapshots": "1"}


@dataclass(frozen=True)
class Row:
    """One line of the table: a measure at every size."""

    name: str
    unit: str
    values: list[float]

    def line(self, sizes: list[int]) -> str:
        cells = [f"{value:>10.3g}" for value in self.values]
        per_partition = [value / size for value, size in zip(self.values, sizes, strict=True)]
        growth = [f"{after / before:>6.2f}" for before, after in pairwise(per_partition)]
        return f"{self.name:<54} {self.unit:<5}" + "".join(cells) + "   " + " ".join(growth)


async def create(bootstrap: str, partitions: int) -> None:
    """One request after the other: the next one is decided on what the one before left."""
    topics = [f"orders-{number}" for number in range(partitions // PER_TOPIC)]
    connection = await Connection.open(Client(bootstrap).bootstrap[0], _SETTINGS)
    try:
        for at in range(0, len(topics), TOPICS_A_REQUEST):
            wanted = [
                CreatableTopic(name=name, num_partitions=PER_TOPIC, replication_factor=NODES)
                for name in topics[at : at + TOPICS_A_REQUEST]
            ]
            request = CreateTopicsRequest(topics=wanted, timeout_ms=60_000)
            answer = await connection.request(request, CreateTopicsResponse)
            for topic in answer.topics:
                # Created, too: a controller that was replaced meanwhile had decided it, and its answer was lost.
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise RuntimeError(f"{topic.name}: {ErrorCode(topic.error_code).name} {topic.error_message}")
    finally:
        await connection.close()


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()  # noqa: TID251 - measuring is what this is for
    work()
    return time.perf_counter() - began  # noqa: TID251


def residents(cluster: Cluster) -> list[float]:
    pids = [cluster.pid(node) for node in range(1, NODES + 1)]
    return [resident_mb(pid) for pid in pids if pid is not None]


def cpu(cluster: Cluster, *nodes: int) -> float:
    """Of these nodes, or all, so far. What else runs on the machine stretches a time, and this hardly."""
    pids = [cluster.pid(node) for node in nodes or range(1, NODES + 1)]
    return sum(cpu_seconds(pid) for pid in pids if pid is not None)


def snapshots(data: Path) -> list[Path]:
    """The newest of every node."""
    found = []
    for node in range(1, NODES + 1):
        folder = data / f"node-{node}" / "data" / "__cluster_metadata-0"
        found += sorted(folder.glob("*.checkpoint"), key=lambda path: path.name)[-1:]
    return found


def image_bytes(snapshot: Path) -> int:
    """What the image of a snapshot takes in memory, and nothing else."""
    reader = SnapshotReader(PosixDisk(16), str(snapshot))
    values = list(reader.values())
    loader = MetadataLoader()
    tracemalloc.start()
    try:
        loader.load_snapshot((unframe(value) for value in values), Provenance(0, 0, 0))
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def wait_for_logs(data: Path, partitions: int) -> None:
    """Topics are acknowledged when they are decided; brokers make the logs behind that."""
    deadline = time.monotonic() + LOGS_S  # noqa: TID251
    for node in range(1, NODES + 1):
        folder = data / f"node-{node}" / "data"
        while sum(name.startswith("orders-") for name in os.listdir(folder)) < partitions:
            if time.monotonic() > deadline:  # noqa: TID251
                raise RuntimeError(f"node {node} has not made all logs")
            time.sleep(0.1)


def wait_for_snapshots(data: Path, partitions: int) -> list[Path]:
    """Until every node has written one that holds all topics: the first may be of before."""
    deadline = time.monotonic() + SNAPSHOT_S  # noqa: TID251
    while time.monotonic() < deadline:  # noqa: TID251
        found = snapshots(data)
        # A partition takes more than this, an empty cluster's snapshot less than any of them.
        if len(found) == NODES and all(path.stat().st_size > 20 * partitions for path in found):
            return found
        time.sleep(0.1)
    raise RuntimeError("not every node has written a snapshot")


def bare_files(data: Path, partitions: int) -> None:
    """What the file system alone takes: the directories and files that the nodes make, and nothing else."""
    for node in range(NODES):
        (data / f"bare-{node}").mkdir()
    for number in range(partitions):
        for node in range(NODES):
            folder = data / f"bare-{node}" / f"orders-{number // PER_TOPIC}-{number % PER_TOPIC}"
            folder.mkdir()
            os.close(os.open(folder / "00000000000000000000.log", os.O_CREAT | os.O_RDWR))


def measure(partitions: int) -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}

    def note(name: str, unit: str, value: float) -> None:
        found[name] = (unit, value)
        print(f"  … {partitions} partitions, {name}: {value:.3g} {unit}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        data = Path(directory)
        spent = time.process_time()
        note("the same directories and files, made by hand", "s", seconds(lambda: bare_files(data, partitions)))
        note("the same by hand, CPU", "s", time.process_time() - spent)
        with Cluster(brokers=NODES, data=data) as cluster:
            before, spent = residents(cluster), cpu(cluster)
            began = time.perf_counter()  # noqa: TID251
            asyncio.run(create(cluster.bootstrap, partitions))
            note("create: acknowledged", "s", time.perf_counter() - began)  # noqa: TID251
            wait_for_logs(data, partitions)
            note("create: every replica has its log", "s", time.perf_counter() - began)  # noqa: TID251
            note("create, CPU of all three nodes", "s", cpu(cluster) - spent)
            note("memory of a node, growth (mean of three)", "MB", (sum(residents(cluster)) - sum(before)) / NODES)
            cluster.kill(3)
            note("start of one node after kill -9", "s", seconds(lambda: cluster.start(3)))
            note("start of one node after kill -9, its CPU", "s", cpu(cluster, 3))
            note("orderly stop of one node", "s", seconds(lambda: cluster.stop(2)))
            note("start of one node after an orderly stop", "s", seconds(lambda: cluster.start(2)))
            note("start of one node after an orderly stop, its CPU", "s", cpu(cluster, 2))
            began = time.perf_counter()  # noqa: TID251
        note("orderly stop of the cluster", "s", time.perf_counter() - began)  # noqa: TID251
        began = time.perf_counter()  # noqa: TID251
        with Cluster(brokers=NODES, data=data) as cluster:
            note("start of the cluster", "s", time.perf_counter() - began)  # noqa: TID251
            note("start of the cluster, CPU of all three nodes", "s", cpu(cluster))
        with Cluster(brokers=NODES, data=data, config=_SNAPSHOT_AT_ONCE):
            wait_for_snapshots(data, partitions)
        newest = snapshots(data)
        note("snapshot on disk", "MB", max(path.stat().st_size for path in newest) / 1e6)
        note("image in memory", "MB", image_bytes(newest[0]) / 1e6)
        log_bytes = sum(path.stat().st_size for path in newest[0].parent.glob("*.log"))
        print(f"  … metadata log behind it: {log_bytes / 1e6:.3g} MB", file=sys.stderr)
        began = time.perf_counter()  # noqa: TID251
        with Cluster(brokers=NODES, data=data) as cluster:
            note("start of the cluster from snapshots", "s", time.perf_counter() - began)  # noqa: TID251
            note("start of the cluster from snapshots, CPU of all three", "s", cpu(cluster))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_partitions", description=__doc__)
    parser.add_argument("--sizes", default="1000,3000,10000", help="numbers of partitions (default 1000,3000,10000)")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    measured = [measure(size) for size in sizes]
    rows = [Row(name, unit, [each[name][1] for each in measured]) for name, (unit, _) in measured[0].items()]
    print(f"{'partitions':<54} {'':<5}" + "".join(f"{size:>10}" for size in sizes) + "   growth per partition")
    for row in rows:
        print(row.line(sizes))
    OUT.mkdir(exist_ok=True)
    told = {"sizes": sizes, "measures": [{"name": row.name, "unit": row.unit, "values": row.values} for row in rows]}
    (OUT / "many_partitions.json").write_text(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
