"""Health on Spark: the events of the topic as a table, and what windows and partitions make of them."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidelog.jobs.health.model import TOPIC, Health, PartitionHealth, WindowHealth

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT: Final = (
    "time long, node int, event string, topic string, partition int, leader_epoch int, old_isr array<int>, "
    "new_isr array<int>, first_lost_offset long, last_lost_offset long, interval_ms long, "
    "under_replicated array<array<string>>, lags array<array<string>>, stalled array<array<string>>, dropped long"
)
_KEY: Final = ("topic", "partition")
_SECOND_MS: Final = 1000
# Exact to a thousandth of the samples.
_ACCURACY: Final = 1000


def read_events(spark: "SparkSession", bootstrap: str, since_ms: int | None = None) -> "DataFrame":
    """A row per event; lines that are none of ours are left out."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
    if since_ms is not None:
        reader = reader.option("startingTimestamp", str(since_ms)).option(
            "startingOffsetsByTimestampStrategy", "latest"
        )
    told = reader.load().select(F.from_json(F.col("value").cast("string"), EVENT).alias("told")).select("told.*")
    return told.where(F.col("time").isNotNull() & F.col("event").isNotNull())


def health(events: "DataFrame", window_s: float = 60.0) -> Health:
    """What the events say."""
    events = events.withColumn("start_ms", _floor(F.col("time"), round(window_s * _SECOND_MS))).persist()
    try:
        found = Health(window_s=window_s)
        _take_overview(events, found)
        partitions: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
        windows: dict[int, dict[str, Any]] = defaultdict(dict)
        moves = _moves(events)
        under, stalled = _listed(events, "under_replicated"), _listed(events, "stalled")
        lags = _listed(events, "lags").withColumn("lag", F.col("amount"))
        for frame, aggregates in (
            (events, (_count(_SHRINK, "shrinks"), _count(_EXPAND, "expands"), _count(_UNCLEAN, "unclean_elections"))),
            (events, (_lost(),)),
            (moves, (F.count("*").alias("leader_moves"),)),
            (under, (_seconds("under_replicated_s"),)),
            (stalled, (_seconds("stalled_s"),)),
            (lags, _percentiles()),
        ):
            for row in frame.where(F.col("topic").isNotNull()).groupBy(*_KEY).agg(*aggregates).collect():
                partitions[row.topic, row.partition] |= _values(row, _KEY)
        for frame, aggregates in (
            (events, (_count(_SHRINK, "shrinks"),)),
            (moves, (F.count("*").alias("leader_moves"),)),
            (under, (_seconds("under_replicated_s"),)),
            (stalled, (_seconds("stalled_s"),)),
            (lags, _percentiles()),
        ):
            for row in frame.groupBy("start_ms").agg(*aggregates).collect():
                windows[row.start_ms] |= _values(row, ("start_ms",))
    finally:
        events.unpersist()
    found.partitions = [
        PartitionHealth(topic=topic, partition=number, **values) for (topic, number), values in partitions.items()
    ]
    found.partitions.sort(key=lambda each: (tuple(-value for value in each.trouble), each.topic, each.partition))
    found.windows = [WindowHealth(start_ms=start, **values) for start, values in sorted(windows.items())]
    return found


def _take_overview(events: "DataFrame", found: Health) -> None:
    row = events.agg(
        F.count("*").alias("events"),
        F.min("time").alias("first_ms"),
        F.max("time").alias("last_ms"),
        F.sort_array(F.collect_set("node")).alias("brokers"),
    ).collect()[0]
    dropped = events.groupBy("node").agg(F.max("dropped").alias("dropped")).agg(F.sum("dropped")).collect()[0][0]
    found.events, found.first_ms, found.last_ms = row.events, row.first_ms or 0, row.last_ms or 0
    found.brokers, found.dropped = list(row.brokers), dropped or 0


_SHRINK: Final = "event = 'isr_changed' AND size(new_isr) < size(old_isr)"
_EXPAND: Final = "event = 'isr_changed' AND size(new_isr) > size(old_isr)"
_UNCLEAN: Final = "event = 'unclean_leader_started'"


def _count(condition: str, name: str) -> "Column":
    return F.count_if(F.expr(condition)).alias(name)


def _lost() -> "Column":
    lost = F.col("last_lost_offset") - F.col("first_lost_offset") + 1
    return F.coalesce(F.sum(F.when(F.col("event") == "committed_records_lost", lost)), F.lit(0)).alias("records_lost")


def _seconds(name: str) -> "Column":
    return (F.sum("interval_ms") / _SECOND_MS).alias(name)


def _percentiles() -> "tuple[Column, ...]":
    shares = {"lag_p50": 0.5, "lag_p95": 0.95, "lag_p99": 0.99}
    return (
        *(F.percentile_approx("lag", share, _ACCURACY).alias(name) for name, share in shares.items()),
        F.max("lag").alias("lag_max"),
    )


def _moves(events: "DataFrame") -> "DataFrame":
    """A leadership that another broker had before. An epoch may also follow the other under one leader."""
    taken = events.where(F.col("event") == "leadership_taken").dropDuplicates([*_KEY, "leader_epoch"])
    before = Window.partitionBy(*_KEY).orderBy("leader_epoch")
    return taken.withColumn("before", F.lag("node").over(before)).where(F.col("before") != F.col("node"))


def _listed(events: "DataFrame", column: str) -> "DataFrame":
    """One of the lists of the samples, a row per entry: its partition, and the last of its numbers."""
    exploded = events.select("time", "start_ms", "interval_ms", F.explode(column).alias("entry"))
    return exploded.select(
        "time",
        "start_ms",
        "interval_ms",
        F.col("entry")[0].alias("topic"),
        F.col("entry")[1].cast("int").alias("partition"),
        F.col("entry")[3].cast("long").alias("amount"),
    )


def _floor(column: "Column", step: int) -> "Column":
    return (F.floor(column / step) * step).cast("long")


def _values(row: Any, left_out: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if name not in left_out and value is not None}
