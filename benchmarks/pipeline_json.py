"""JSON to typed columns, into an aggregate: a pipeline's source beside Spark's connector with `from_json`.

python -m benchmarks.pipeline_json [--records 1000000] [--runs 3] [--partitions 2] [--only 110]

Records of 110 B and of 1 KB: seven fields, of which one is a timestamp and one is NOT NULL. The larger ones have a text
in a field that nobody reads. One broker, one Spark session with a core per partition. Three queries run in turns within
a round, and the first round is not counted: connector and `from_json`, our source and `from_json`, our source as
pipelines decode it. Only the last one finds bad records. Rows per second of CPU time of the JVM and its Python workers,
from /proc, so that a busy machine changes little.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.interop.kafka_jars import connector_version

from benchmarks.kernel import LARGE, NOW_MS
from benchmarks.spark_source import Case, fill, session
from tidelog.spark import SETTINGS
from tidelog.testing import Cluster
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT: Final = Path(__file__).parent / "out"
SCHEMA: Final = "id BIGINT NOT NULL, name STRING, price DOUBLE, qty INT, ok BOOLEAN, city STRING, at TIMESTAMP"
CONNECTOR, SOURCE, PIPELINE = "connector + from_json", "tidelog + from_json", "pipeline"
KINDS: Final = (CONNECTOR, SOURCE, PIPELINE)
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_CITIES: Final = ("Quito", "Oslo", "Lima", "Rome")


@dataclass
class JsonCase(Case):
    """One topic of JSON."""

    per_cpu: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def batch(self, batch_bytes: int, chance: random.Random) -> bytes:
        records = [Record(timestamp=NOW_MS + n, value=self._value(chance)) for n in range(self.a_batch(batch_bytes))]
        return encode_batch(records, codec=self.codec)

    def _value(self, chance: random.Random) -> bytes:
        number = chance.randrange(10**6)
        value: dict[str, Any] = {"id": number, "name": f"n{number % 1000}", "price": number / 100, "qty": number % 9}
        value |= {"ok": number % 2 == 0, "city": _CITIES[number % 4], "at": f"2026-01-05T12:{number % 60:02}:00Z"}
        text = json.dumps(value, separators=(",", ":"))
        missing = self.size - len(text) - len(',"pad":""')
        return (text if missing <= 0 else f'{text[:-1]},"pad":"{"x" * missing}"}}').encode()


def cpu_s(jvm: int) -> float:
    """User and system time of a process and of all below it, those that have ended included."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                # It has ended: its parent has its time.
                continue
            stats[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    below, found = {jvm}, True
    while found:
        more = {pid for pid, (parent, _) in stats.items() if parent in below} - below
        below |= more
        found = bool(more)
    return sum(stats[pid][1] for pid in below if pid in stats) / _TICKS


def queries(spark: "SparkSession", topic: dict[str, str]) -> "dict[str, Callable[[], DataFrame]]":
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    from tidelog.jobs.pipeline import decoding
    from tidelog.jobs.pipeline.model import JSON, Decoding, Source

    source = Source(
        name="bench", options={}, value=Decoding(format=JSON, schema=SCHEMA, required=("id",)), key=Decoding()
    )
    fields = StructType.fromDDL(SCHEMA.replace(" NOT NULL", ""))
    assert isinstance(fields, StructType)

    def load(kind: str) -> "DataFrame":
        return spark.read.format(kind).options(**topic).load()

    def plain(kind: str) -> "DataFrame":
        return load(kind).select(f.from_json(f.col("value").cast("string"), fields).alias("v")).select("v.*")

    return {
        CONNECTOR: lambda: plain("kafka"),
        SOURCE: lambda: plain("tidelog"),
        PIPELINE: lambda: decoding.good(load("tidelog"), source),
    }


def aggregate(rows: "DataFrame") -> int:
    """How many rows there were; every column is used."""
    from pyspark.sql import functions as f

    result = rows.agg(
        *(f.count("id"), f.max("name"), f.sum("price"), f.sum("qty"), f.count_if("ok"), f.max("city"), f.max("at"))
    ).collect()
    return int(result[0][0])


def measure(cases: list[JsonCase], options: argparse.Namespace) -> None:
    with Cluster(brokers=1) as cluster, session(options.partitions, SETTINGS) as spark:
        jvm: Any = spark.sparkContext._jvm
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
        for case in cases:
            cluster.create_topic(case.topic, partitions=options.partitions, config={"retention.ms": "-1"})
            rows = asyncio.run(fill(cluster.bootstrap, case, options.records, options.partitions, LARGE))
            asked = queries(spark, {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": case.topic})
            for run in range(options.runs + 1):
                # Each goes first in turns.
                for kind in KINDS[run % 3 :] + KINDS[: run % 3]:
                    began = cpu_s(pid)
                    found = aggregate(asked[kind]())
                    assert found == rows, f"{kind} gave {found} of {rows} rows"
                    if run:
                        case.per_cpu[kind].append(rows / (cpu_s(pid) - began))
                if run:
                    shown = ", ".join(f"{kind} {case.per_cpu[kind][-1]:,.0f}" for kind in KINDS)
                    print(f"  … {case.topic}: {shown} rows per CPU second", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--only", type=int, action="append", help="a size in bytes; may be repeated")
    options = parser.parse_args()
    cases = [JsonCase(size, Codec.NONE) for size in options.only or (110, 1000)]
    measure(cases, options)
    print(f"rows per CPU second; connector {connector_version()}")
    print(f"{'':<10}" + "".join(f"{kind:>24}" for kind in KINDS) + f"{'pipeline / connector':>24}")
    for case in cases:
        medians = [statistics.median(case.per_cpu[kind]) for kind in KINDS]
        ratio = statistics.median(
            ours / theirs for ours, theirs in zip(case.per_cpu[PIPELINE], case.per_cpu[CONNECTOR], strict=True)
        )
        print(f"{case.size:>6} B  " + "".join(f"{each:>24,.0f}" for each in medians) + f"{ratio:>24.2f}")
    OUT.mkdir(exist_ok=True)
    found = [{"size": case.size, "rows_per_cpu_second": case.per_cpu} for case in cases]
    (OUT / "pipeline_json.json").write_text(json.dumps({"records": options.records, "measures": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
