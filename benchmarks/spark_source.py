"""Our Spark source beside Spark's own Kafka connector: a topic, all columns, to nowhere.

python -m benchmarks.spark_source [--records 10000000] [--runs 3] [--partitions 2] [--only 1000-none] [--ceiling]

Records of 100 B and 1 KB (10 B of it key, of the rest a third is chance), plain and zstd, in batches of 500 KB as
librdkafka makes them under load, or `--batch-bytes 16384` as Java's producer does. One broker, one Spark session with a
core for each partition and the settings that `tidelog.spark` asks for (`--plain`: without them), both connectors with
their defaults, in turns within a run, the first of which is not counted. Also the largest resident size of a Python
worker: once after a tenth of the records, once after all. A case of ten million records takes about four minutes and up
to 11 GB of disk at 1 KB, one minute at 100 B; `--only` takes them one at a time. `--ceiling` measures a third source in
the same turns, which reads nothing and gives Spark one Arrow batch again and again: the time that is left then is
Spark's own, for rows from any source in Python.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import TYPE_CHECKING, Final

from tests.interop.kafka_jars import connector_version, ensure_connector

from benchmarks import ceiling
from benchmarks.ceiling import CEILING, CeilingSource
from benchmarks.kernel import KEY_BYTES, LARGE, NOW_MS, text
from tidelog.client.client import Client
from tidelog.client.errors import raise_for
from tidelog.client.topics import delete_topic
from tidelog.spark import SETTINGS
from tidelog.testing import Cluster
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT: Final = Path(__file__).parent / "out"
GOAL: Final = 2.0
OURS: Final = "tidelog"
THEIRS: Final = "kafka"
# So many batches differ; then they come again. What is read is never compared with what was read before.
VARIANTS: Final = 16


@dataclass
class Case:
    """One topic."""

    size: int
    codec: Codec
    rates: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], THEIRS: [], CEILING: []})
    peaks_mb: list[float] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"{self.size}-{self.codec.name.lower()}"

    def median(self, kind: str) -> float:
        return statistics.median(self.rates[kind])

    def ratios(self, kind: str) -> list[float]:
        return [rate / theirs for rate, theirs in zip(self.rates[kind], self.rates[THEIRS], strict=True)]

    def batch(self, batch_bytes: int, chance: random.Random) -> bytes:
        records = [
            Record(
                timestamp=NOW_MS + n, key=b"%010d" % chance.getrandbits(32), value=text(self.size - KEY_BYTES, chance)
            )
            for n in range(self.a_batch(batch_bytes))
        ]
        return encode_batch(records, codec=self.codec)

    def a_batch(self, batch_bytes: int) -> int:
        return max(batch_bytes // self.size, 1)


async def fill(bootstrap: str, case: Case, records: int, partitions: int, batch_bytes: int) -> int:
    """How many there are then. Batches are made once and sent again and again: filling must not take longer than
    reading.
    """
    chance = random.Random(case.size)
    a_batch = case.a_batch(batch_bytes)
    variants = [case.batch(batch_bytes, chance) for _ in range(VARIANTS)]
    async with Client(bootstrap) as client:
        topic = await client.topic(case.topic)
        connection = await client.broker(await client.leader_of(case.topic, 0))
        batches = -(-records // a_batch)
        for number in range(batches):
            data = PartitionProduceData(index=number % partitions, records=variants[number % VARIANTS])
            request = ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=case.topic, topic_id=topic.topic_id, partition_data=[data])],
            )
            answer = await connection.request(request, ProduceResponse)
            raise_for(answer.responses[0].partition_responses[0].error_code, what=case.topic)
    return batches * a_batch


async def empty(bootstrap: str, topic: str) -> None:
    async with Client(bootstrap) as client:
        await delete_topic(client, topic)


def read(spark: "SparkSession", kind: str, **options: str) -> float:
    """Seconds from the beginning of the query to its end."""
    began_s = now_s()
    spark.read.format(kind).options(**options).load().write.format("noop").mode("overwrite").save()
    return now_s() - began_s


def workers() -> Iterator[int]:
    """Spark's Python workers: they are forked, or started, by processes below this one's."""
    below, found = {os.getpid()}, True
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except FileNotFoundError:
                # It has ended meanwhile.
                continue
            parents[int(entry.name)] = int(fields[1])
    while found:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below |= more
        found = bool(more)
    for pid in below:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except FileNotFoundError:
            # This one too.
            continue
        if b"pyspark.daemon" in line:
            yield pid


def peak_mb() -> float:
    peaks = []
    for pid in workers():
        status = Path(f"/proc/{pid}/status").read_text()
        peaks += [int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


@contextmanager
def session(cores: int, settings: Mapping[str, str]) -> "Iterator[SparkSession]":
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    import tidelog.spark

    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", ",".join(map(str, ensure_connector())))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    tidelog.spark.register(spark)
    # The workers find neither this package nor what runs as `__main__`.
    cloudpickle.register_pickle_by_value(ceiling)  # type: ignore[no-untyped-call]
    spark.dataSource.register(CeilingSource)
    try:
        yield spark
    finally:
        spark.stop()


def measure(cases: list[Case], options: argparse.Namespace) -> None:
    records, runs, partitions, batch_bytes = options.records, options.runs, options.partitions, options.batch_bytes
    settings = {} if options.plain else SETTINGS
    kinds = (OURS, CEILING, THEIRS) if options.ceiling else (OURS, THEIRS)
    with (
        Cluster(brokers=1) as cluster,
        session(partitions, settings) as spark,
        tempfile.NamedTemporaryFile() as template,
    ):
        for case in cases:
            cluster.create_topic(case.topic, partitions=partitions, config={"retention.ms": "-1"})
            rows = asyncio.run(fill(cluster.bootstrap, case, records, partitions, batch_bytes))
            print(f"made {rows} records of {case.topic}", file=sys.stderr)
            template.seek(0)
            template.truncate()
            # What is packed is never unpacked again by a source that gives the same batch again and again.
            template.write(case.batch(batch_bytes, random.Random(0)))
            template.flush()
            topic = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": case.topic}
            nothing = {"template": template.name, "rows": str(rows // partitions), "partitions": str(partitions)}
            asked = {OURS: topic, THEIRS: topic, CEILING: nothing}
            tenth = json.dumps({case.topic: {str(n): rows // partitions // 10 for n in range(partitions)}})
            for kind in (THEIRS, OURS):
                read(spark, kind, endingOffsets=tenth, **topic)
            case.peaks_mb.append(peak_mb())
            for run in range(runs + 1):
                # Each goes first every other time.
                for kind in kinds if run % 2 else kinds[::-1]:
                    took_s = read(spark, kind, **asked[kind])
                    if run:
                        case.rates[kind].append(rows / took_s / 1e6)
                if run:
                    shown = ", ".join(f"{kind} {case.rates[kind][-1]:.3f}" for kind in kinds)
                    print(f"  … {case.topic}: {shown} million rows/s", file=sys.stderr)
            case.peaks_mb.append(peak_mb())
            # All cases at once would be more than memory holds: theirs and ours alike would read from disk.
            asyncio.run(empty(cluster.bootstrap, case.topic))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--batch-bytes", type=int, default=LARGE)
    parser.add_argument("--only", action="append", help="a case, as in 100-zstd; may be said several times")
    parser.add_argument("--plain", action="store_true", help="Spark's own settings, not those that we ask for")
    parser.add_argument("--ceiling", action="store_true", help="beside them a source that reads nothing")
    options = parser.parse_args()
    cases = [Case(size, codec) for size in (100, 1000) for codec in (Codec.NONE, Codec.ZSTD)]
    if options.only:
        cases = [case for case in cases if case.topic in options.only]
    measure(cases, options)
    theirs = f"{THEIRS} {connector_version()}"
    print(f"{'million rows/s':<14} {OURS:>8} {theirs:>12} {'ratio':>7} spread   worker peak MB")
    for case in cases:
        ratios = case.ratios(OURS)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        peaks = " -> ".join(f"{each:.0f}" for each in case.peaks_mb)
        ratio = statistics.median(ratios)
        print(
            f"{case.topic:<14} {case.median(OURS):>8.3f} {case.median(THEIRS):>12.3f} {ratio:>7.2f} {spread}   {peaks}"
        )
        if options.ceiling:
            rate, ratio = case.median(CEILING), statistics.median(case.ratios(CEILING))
            print(f"  a source that reads nothing: {rate:.3f}, ratio {ratio:.2f}")
    print(f"goal: a ratio of {GOAL:g}")
    OUT.mkdir(exist_ok=True)
    rows = [{"name": c.topic, "rates": c.rates, "ratios": c.ratios(OURS), "worker_peak_mb": c.peaks_mb} for c in cases]
    (OUT / "spark_source.json").write_text(json.dumps({"records": options.records, "measures": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
