"""What a trigger of our streaming source costs, beside a Python source that does nothing.

python -m benchmarks.spark_triggers [--batches 60] [--runs 3]

`small`: each micro-batch has one record; the other source has none, and its offset advances by one. `idle`: a third
source makes the micro-batches, and the measured source has nothing new. Both run in one session, in turns. Columns:
median milliseconds of a micro-batch, CPU milliseconds of Spark with its Python workers, and of the workers alone, new
connections to the broker, and bytes that it sent.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from tests.clients.cutting_proxy import CuttingProxy

from tidelog.client.client import Client
from tidelog.client.producer import Producer
from tidelog.spark import SETTINGS
from tidelog.testing import Cluster
from tidelog.wire.records.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT: Final = Path(__file__).parent / "out"
OURS: Final = "tidelog"
EMPTY: Final = "nothing"
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_WARM: Final = 10


class NothingReader(DataSourceStreamReader):
    """Its offset is the number in a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        with open(self._path) as file:
            return {"at": int(file.read() or 0)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(0)] if end != start else []

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        return iter(())


class NothingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return EMPTY

    def schema(self) -> str:
        return "value BINARY"

    def streamReader(self, schema: Any) -> NothingReader:  # noqa: N802 - Spark's name
        return NothingReader(self.options["file"])


@dataclass
class Result:
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    python_ms: list[float] = field(default_factory=list)
    connects: list[float] = field(default_factory=list)
    sent_bytes: list[float] = field(default_factory=list)


def tree_cpu_s(root: int) -> tuple[float, float]:
    """Of a process and all below it, those that have ended included; and of those below alone."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                # It has ended meanwhile.
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS_PER_S
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    whole = sum(times.get(pid, 0.0) for pid in below)
    return whole, whole - own_s(root)


def own_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / _TICKS_PER_S


class Topic:
    """One record more at each call."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = Client(bootstrap)
        self._producer = Producer(self._client)
        self._name = name

    def advance(self) -> None:
        record = Record(timestamp=1, key=None, value=b"x" * 100)
        self._loop.run_until_complete(self._producer.send(self._name, 0, [record]))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


class Bench:
    """Both sources in one session, on one cluster."""

    def __init__(self, spark: "SparkSession", cluster: Cluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        self.proxy = CuttingProxy(cluster.bootstrap, 0)
        self.proxy.stop_cutting()
        from pyspark import SparkContext

        assert SparkContext._gateway is not None
        self.jvm: int = SparkContext._gateway.proc.pid
        self._numbers = iter(range(1_000_000))

    def counters(self) -> tuple[int, int]:
        return self.proxy.connections, self.proxy.answered_bytes

    def nothing(self, name: str) -> "tuple[DataFrame, Path]":
        file = self.folder / f"{name}-{next(self._numbers)}"
        file.write_text("0")
        return self.spark.readStream.format(EMPTY).option("file", str(file)).load(), file

    def ours(self, topic: str) -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.proxy.bootstrap, "subscribe": topic}
        return self.spark.readStream.format("tidelog").options(**options).load().select("value")

    def run(self, kind: str, measure: str, batches: int, result: Result) -> None:
        topic = f"{measure}-{next(self._numbers)}"
        self.cluster.create_topic(topic)
        records = Topic(self.cluster.bootstrap, topic)
        ticker, ticker_file = self.nothing("ticker")
        if measure == "small":
            frame = self.ours(topic) if kind == OURS else ticker
        else:
            other = self.ours(topic) if kind == OURS else self.nothing("idle")[0]
            frame = ticker.union(other)
        ours_advances = measure == "small" and kind == OURS
        checkpoint = self.folder / f"checkpoint-{next(self._numbers)}"
        query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        try:
            for number in range(_WARM + batches):
                if number == _WARM:
                    before, cpu = self.counters(), tree_cpu_s(self.jvm)
                if ours_advances:
                    records.advance()
                else:
                    ticker_file.write_text(str(number + 1))
                began_s = now_s()
                query.processAllAvailable()
                if number >= _WARM:
                    result.wall_ms.append(1000 * (now_s() - began_s))
            after, now = self.counters(), tree_cpu_s(self.jvm)
            result.cpu_ms.append(1000 * (now[0] - cpu[0]) / batches)
            result.python_ms.append(1000 * (now[1] - cpu[1]) / batches)
            result.connects.append((after[0] - before[0]) / batches)
            result.sent_bytes.append((after[1] - before[1]) / batches)
        finally:
            query.stop()
            records.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    from tests.spark_sessions import spark_session

    found: dict[str, dict[str, Result]] = {each: {OURS: Result(), EMPTY: Result()} for each in ("small", "idle")}
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(brokers=1) as cluster,
        spark_session("triggers", **SETTINGS) as spark,
    ):
        from pyspark import cloudpickle

        # The workers find neither this package nor what runs as `__main__`.
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
        spark.dataSource.register(NothingSource)
        bench = Bench(spark, cluster, Path(folder))
        for run in range(options.runs):
            for measure, results in found.items():
                for kind in (OURS, EMPTY) if run % 2 else (EMPTY, OURS):
                    bench.run(kind, measure, options.batches, results[kind])
                    shown = results[kind]
                    print(
                        f"{measure} {kind}: {statistics.median(shown.wall_ms[-options.batches :]):.1f} ms, "
                        f"CPU {shown.cpu_ms[-1]:.1f} ms, of it Python {shown.python_ms[-1]:.1f} ms",
                        file=sys.stderr,
                    )
    print(f"{'':<16} {'ms':>8} {'CPU ms':>8} {'Python':>8} {'connects':>9} {'bytes':>9}")
    ratios = {}
    for measure, results in found.items():
        for kind, result in results.items():
            columns = (result.wall_ms, result.cpu_ms, result.python_ms, result.connects, result.sent_bytes)
            wall, cpu, python, connects, sent = map(statistics.median, columns)
            print(f"{measure + ' ' + kind:<16} {wall:8.1f} {cpu:8.1f} {python:8.1f} {connects:9.2f} {sent:9.0f}")
        ours, empty = results[OURS], results[EMPTY]
        ratios[measure] = {
            "wall": statistics.median(ours.wall_ms) / statistics.median(empty.wall_ms),
            "cpu": statistics.median(ours.cpu_ms) / statistics.median(empty.cpu_ms),
        }
        print(f"{measure + ' ratio':<16} {ratios[measure]['wall']:8.2f} {ratios[measure]['cpu']:8.2f}")
    OUT.mkdir(exist_ok=True)
    (OUT / "spark_triggers.json").write_text(json.dumps(ratios, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
