"""Runs spread over Spark: every task takes some, and tells each verdict as a row."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidelog.jobs.campaign.odds import SCHEMA, Run, Tally, tallies
from tidelog.sim.durability import Durability, Verdict
from tidelog.sim.durability import run as run_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a second each: a task is long enough to be worth its start, and short enough to be spread and tried again.
RUNS_PER_TASK: Final = 12


def campaign(spark: "SparkSession", seeds: Sequence[int], configurations: Sequence[Durability]) -> list[Tally]:
    """Every seed under every configuration."""
    names = [str(each) for each in configurations]
    works = [(seed, name) for seed in seeds for name in names]
    tasks = max(1, -(-len(works) // RUNS_PER_TASK))
    frame = spark.createDataFrame(works, "seed long, configuration string").repartition(tasks)
    rows = frame.mapInArrow(run_batches, SCHEMA).collect()
    return tallies(names, (Run(*row) for row in rows))


def run_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does; on an executor."""
    logging.disable(logging.CRITICAL)
    for batch in batches:
        for work in batch.to_pylist():
            verdict = run_one(work["seed"], Durability.parse(work["configuration"]))
            yield pa.RecordBatch.from_pylist([row(verdict)._asdict()], schema=_ARROW)


def row(verdict: Verdict) -> Run:
    example = verdict.examples[0] if verdict.examples else None
    return Run(
        seed=verdict.seed,
        configuration=str(verdict.configuration),
        failing=len(verdict.incident),
        incident=", ".join(f"{each.kind} {each.broker} at {each.at_s:.1f} s" for each in verdict.incident),
        acknowledged=verdict.acknowledged,
        lost=verdict.lost,
        example="" if example is None else f"offset {example.offset} of orders-{example.partition}",
        outage_s=verdict.longest_outage_s,
        unavailable=verdict.unavailable,
        unclean_elections=verdict.unclean_elections,
        seconds=verdict.seconds,
        broken=verdict.broken,
    )


_TYPES: Final = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
_ARROW: Final = pa.schema([(name, _TYPES[kind]) for name, kind in (each.split() for each in SCHEMA.split(", "))])
