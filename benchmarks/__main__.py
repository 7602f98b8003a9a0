"""`make bench`: one broker against its limits. Medians of interleaved runs; a table, a plot, and a JSON file.

python -m benchmarks [--runs 5] [--quick]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient

from benchmarks.plot import draw
from benchmarks.processes import cpu_seconds, null_server, resident_mb, run_producer
from benchmarks.reader import fetch_all, loopback_copy
from benchmarks.round_trip import round_trips_ms
from tidelog.testing import Cluster

START_DEADLINE_S = 60
OUT = Path(__file__).parent / "out"


@dataclass
class Measure:
    """One line of the table: the values of all runs, and the goal."""

    name: str
    goal: str
    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def line(self) -> str:
        spread = f"{min(self.values):.3g} to {max(self.values):.3g}"
        return f"{self.name:<58} {self.median:>10.3f} {self.unit:<10} {self.goal:<10} {spread}"


def measure_produce(size: int, records: int, runs: int) -> list[Measure]:
    ratio = Measure(f"produce acks=all, {size} B: of a server that only acknowledges", ">= 0.9", "ratio")
    ours = Measure(f"produce acks=all, {size} B", "", "k rec/s")
    cpu = Measure(f"broker CPU per GB produced, {size} B", "<= 1.5", "s/GB")
    with (
        tempfile.TemporaryDirectory() as data,
        Cluster(brokers=1, data=data, config={"log.segment.delete.delay.ms": "0"}) as cluster,
        null_server() as (null, _),
    ):
        pid = pid_of(cluster)
        # One run more than counted: the first touch of memory is dear on a virtual machine, and not the broker's doing.
        for run in range(runs + 1):
            topic = f"bench-{size}-{run}"
            cluster.create_topic(topic, partitions=1, replication_factor=1)
            limit = records / run_producer(null, "bench", records, size)
            before = cpu_seconds(pid)
            reached = records / run_producer(cluster.bootstrap, topic, records, size)
            spent = (cpu_seconds(pid) - before) / (records * size / 1e9)
            delete_topic(cluster, topic, Path(data))
            if run == 0:
                continue
            cpu.values.append(spent)
            ratio.values.append(reached / limit)
            ours.values.append(reached / 1000)
            progress(f"{topic}: {reached / 1000:.0f} k rec/s, limit {limit / 1000:.0f} k rec/s, {spent:.2f} s/GB")
    return [ratio, ours, cpu]


def measure_read(runs: int, size_mb: int) -> list[Measure]:
    ratio = Measure("reader of undecoded Fetch bytes: of a raw loopback copy", ">= 0.5", "ratio")
    speed = Measure("reader of undecoded Fetch bytes", "", "MB/s")
    records = size_mb * 1000
    with tempfile.TemporaryDirectory() as data, Cluster(brokers=1, data=data) as cluster:
        cluster.create_topic("bench", partitions=1, replication_factor=1)
        run_producer(cluster.bootstrap, "bench", records, 1000)
        segment = next(Path(data).rglob("bench-0/*.log"))
        for _ in range(runs):
            took, size = fetch_all(cluster.bootstrap, "bench", records)
            raw = loopback_copy(segment, min(size, segment.stat().st_size))
            ratio.values.append((size / took) / (min(size, segment.stat().st_size) / raw))
            speed.values.append(size / took / 1e6)
            progress(f"read {size / took / 1e6:.0f} MB/s, raw copy {size / raw / 1e6:.0f} MB/s")
    return [ratio, speed]


def measure_latency(runs: int, count: int) -> list[Measure]:
    p50 = Measure("single-record round trip, acks=all, p50", "< 1", "ms")
    p99 = Measure("single-record round trip, acks=all, p99", "", "ms")
    idle = Measure("idle broker, resident", "< 60", "MB")
    with Cluster(brokers=1) as cluster:
        idle.values.append(resident_mb(pid_of(cluster)))
        cluster.create_topic("bench", partitions=1, replication_factor=1)
        for _ in range(runs):
            taken = round_trips_ms(cluster.bootstrap, "bench", count)
            p50.values.append(taken[len(taken) // 2])
            p99.values.append(taken[int(len(taken) * 0.99)])
            progress(f"round trip p50 {p50.values[-1]:.3f} ms, p99 {p99.values[-1]:.3f} ms")
    return [p50, p99, idle]


def measure_start(runs: int) -> list[Measure]:
    """From starting the process of a formatted node to the first acknowledged write."""
    start = Measure("start to the first acknowledged write", "< 1", "s")
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("bench", partitions=1, replication_factor=1)
        for _ in range(runs):
            cluster.stop(1)
            began = time.perf_counter()  # noqa: TID251 - measuring is what this is for
            starter = threading.Thread(target=cluster.start, args=(1,))
            starter.start()
            while True:
                try:
                    round_trips_ms(cluster.bootstrap, "bench", 1)
                    break
                except ConnectionError as error:
                    # Not listening yet, or not leading yet: only an acknowledged write ends the wait.
                    if time.perf_counter() - began > START_DEADLINE_S:  # noqa: TID251
                        raise RuntimeError("the node took no write") from error
            start.values.append(time.perf_counter() - began)  # noqa: TID251
            starter.join()
            progress(f"start {start.values[-1]:.3f} s")
    return [start]


def measure_commands(runs: int) -> list[Measure]:
    """Whole processes, Python's own start included: what scripts made of many small commands wait for."""
    found = [Measure("import tidelog", "< 0.15", "s"), Measure("tidelog --help", "", "s")]
    commands = (["-c", "import tidelog"], ["-m", "tidelog", "--help"])
    for _ in range(runs):
        for measure, command in zip(found, commands, strict=True):
            began = time.perf_counter()  # noqa: TID251 - measuring is what this is for
            subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
            measure.values.append(time.perf_counter() - began)  # noqa: TID251
    progress(f"import tidelog {found[0].median:.3f} s, tidelog --help {found[1].median:.3f} s")
    return found


def measure_cluster_start(runs: int) -> list[Measure]:
    """What a test suite waits for: three brokers from nothing until a topic can be created."""
    start = Measure("three brokers from nothing to ready", "< 2", "s")
    for _ in range(runs):
        began = time.perf_counter()  # noqa: TID251 - measuring is what this is for
        with Cluster(brokers=3):
            start.values.append(time.perf_counter() - began)  # noqa: TID251
        progress(f"three brokers {start.values[-1]:.3f} s")
    return [start]


def delete_topic(cluster: Cluster, topic: str, data: Path) -> None:
    """Also its files, so that every run finds the machine's memory as the one before did."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_topics([topic]).values():
        done.result()
    deadline = time.monotonic() + 60  # noqa: TID251 - measuring is what this is for
    while any(data.rglob(f"{topic}-0*")):
        if time.monotonic() > deadline:  # noqa: TID251
            raise RuntimeError(f"the files of {topic} are still there")
        time.sleep(0.05)


def pid_of(cluster: Cluster) -> int:
    pid = cluster.pid(1)
    assert pid is not None
    return pid


def progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="interleaved runs of each measure (default 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data: to see that it works")
    options = parser.parse_args()
    scale = 10 if options.quick else 1
    measures = [
        *measure_produce(100, 2_000_000 // scale, options.runs),
        *measure_produce(1000, 500_000 // scale, options.runs),
        *measure_read(options.runs, 500 // scale),
        *measure_latency(options.runs, 2000 // scale),
        *measure_start(options.runs),
        *measure_cluster_start(options.runs),
        *measure_commands(options.runs),
    ]
    OUT.mkdir(exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    print(f"{'measure':<58} {'median':>10} {'unit':<10} {'goal':<10} spread of {options.runs} runs")
    for measure in measures:
        print(measure.line())
    rows = [{"name": m.name, "goal": m.goal, "unit": m.unit, "median": m.median, "values": m.values} for m in measures]
    (OUT / "results.json").write_text(json.dumps({"commit": commit.stdout.strip(), "measures": rows}, indent=2))
    draw([(m.name, m.goal, m.unit, m.values) for m in measures], OUT / "results.png")
    print(f"written: {OUT / 'results.json'} {OUT / 'results.png'}")


if __name__ == "__main__":
    main()
