"""Runs spread over Spark: every task takes some, and tells of each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.jobs.campaign.odds import Run, Tally, tallies
from tidelog.sim.durability import Durability, Verdict
from tidelog.sim.durability import run as run_one
from tidelog.sim.logged import quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of a second each: a task is long enough to be worth its start, and short enough to be spread and tried again.
RUNS_PER_TASK: Final = 12


def campaign(spark: "SparkSession", seeds: Sequence[int], configurations: Sequence[Durability]) -> list[Tally]:
    """Every seed under every configuration."""
    names = [str(each) for each in configurations]
    works = [(seed, name) for seed in seeds for name in names]
    tasks = max(1, -(-len(works) // RUNS_PER_TASK))
    rows = spark.sparkContext.parallelize(works, tasks).mapPartitions(run_all).collect()
    return tallies(names, (Run(*each) for each in rows))


def run_all(works: Iterable[tuple[int, str]]) -> Iterator[tuple[Any, ...]]:
    """What a task does; on an executor."""
    for seed, name in works:
        with quiet():
            verdict = run_one(seed, Durability.parse(name))
        yield tuple(row(verdict))


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
