"""Health on Spark: the events of the topic as a table, and what windows and partitions make of them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidelog.broker.replication_events import MOST_LISTED
from tidelog.jobs.health.model import TOPIC, Health, PartitionHealth, WindowHealth
from tidelog.jobs.session import kafka_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT: Final = (
    "time long, node int, event string, topic string, partition int, leader_epoch int, old_isr array<int>, "
    "new_isr array<int>, first_lost_offset long, last_lost_offset long, interval_ms long, "
    "under_replicated array<array<string>>, lags array<array<string>>, stalled array<array<string>>, dropped long"
)
_KEY: Final = ("topic", "partition")
_TAKEN: Final = "leadership_taken"
# Of a sample.
_LISTS: Final = ("under_replicated", "stalled", "lags")
_SECOND_MS: Final = 1000
# Exact to a thousandth of the samples.
_ACCURACY: Final = 1000


def read_events(
    spark: "SparkSession", bootstrap: str, since_ms: int | None = None, security: Mapping[str, str] | None = None
) -> "DataFrame":
    """A row per event; lines that are none of ours are left out. Leaderships from before `since_ms` are among them:
    a move can be told only by who led before.
    """
    reader = spark.read.format("tidelog").options(**kafka_options(bootstrap, security)).option("subscribe", TOPIC)
    lines = reader.load().select("timestamp", F.col("value").cast("string").alias("line"))
    if since_ms is not None:
        # A line comes after what it tells of.
        recent = F.col("timestamp") >= F.timestamp_millis(F.lit(since_ms))
        lines = lines.where(recent | F.col("line").contains(_TAKEN))
    told = lines.select(F.from_json("line", EVENT).alias("told")).select("told.*")
    return told.where(F.col("time").isNotNull() & F.col("event").isNotNull())


def health(events: "DataFrame", window_s: float = 60.0, since_ms: int | None = None) -> Health:
    """What the events say, those from `since_ms` on."""
    events = _with_moves(events.withColumn("start_ms", _floor(F.col("time"), round(window_s * _SECOND_MS))))
    if since_ms is not None:
        events = events.where(F.col("time") >= since_ms)
    events.persist()
    found = Health(window_s=window_s)
    partitions: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    windows: dict[int, dict[str, Any]] = defaultdict(dict)
    try:
        _take_overview(events, found)
        for frame, columns in ((events, _of_events()), (_listed(events), _of_samples())):
            for row in frame.where(F.col("topic").isNotNull()).groupBy(*_KEY).agg(*columns).collect():
                partitions[row.topic, row.partition] |= _values(row)
            for row in frame.groupBy("start_ms").agg(*columns).collect():
                windows[row.start_ms] |= _values(row)
    finally:
        events.unpersist()
    found.partitions = [PartitionHealth(**values) for values in partitions.values()]
    found.partitions.sort(key=lambda each: (tuple(-value for value in each.trouble), each.topic, each.partition))
    found.windows = [WindowHealth(**windows[start]) for start in sorted(windows)]
    return found


def _take_overview(events: "DataFrame", found: Health) -> None:
    # A broker counts what it could not publish from its start on, and starts anew.
    before = F.lag("dropped").over(Window.partitionBy("node", F.col("dropped").isNull()).orderBy("time"))
    more = F.when(before <= F.col("dropped"), F.col("dropped") - before).otherwise(F.col("dropped"))
    by_node = (
        events.withColumn("more_dropped", more)
        .groupBy("node")
        .agg(
            F.count("*").alias("events"),
            F.min("time").alias("first_ms"),
            F.max("time").alias("last_ms"),
            F.sum("more_dropped").alias("dropped"),
            F.count_if(_is_full()).alias("full_samples"),
        )
    )
    rows = by_node.orderBy("node").collect()
    found.brokers = [row.node for row in rows]
    found.events = sum(row.events for row in rows)
    found.dropped = sum(row.dropped or 0 for row in rows)
    found.full_samples = sum(row.full_samples for row in rows)
    found.first_ms = min((row.first_ms for row in rows), default=0)
    found.last_ms = max((row.last_ms for row in rows), default=0)


def _with_moves(events: "DataFrame") -> "DataFrame":
    """A leadership that another broker had before is a move. An epoch may also follow the other under one leader."""
    before = F.lag("node").over(Window.partitionBy(*_KEY, "event").orderBy("leader_epoch"))
    taken = F.col("event") == _TAKEN
    return events.withColumn("moved", F.coalesce(taken & (before != F.col("node")), F.lit(False)))


def _of_events() -> "tuple[Column, ...]":
    lost = F.col("last_lost_offset") - F.col("first_lost_offset") + 1
    return (
        F.count_if(F.expr("event = 'isr_changed' AND size(new_isr) < size(old_isr)")).alias("shrinks"),
        F.count_if(F.expr("event = 'isr_changed' AND size(new_isr) > size(old_isr)")).alias("expands"),
        F.count_if(F.col("moved")).alias("leader_moves"),
        F.count_if(F.col("event") == "unclean_leader_started").alias("unclean_elections"),
        F.sum(F.when(F.col("event") == "committed_records_lost", lost)).alias("records_lost"),
    )


def _is_full() -> "Column":
    return F.greatest(*(F.size(name) for name in _LISTS)) >= MOST_LISTED


def _listed(events: "DataFrame") -> "DataFrame":
    """The lists of the samples, a row per entry: which list, its partition, and the last of its numbers."""

    def entries(name: str) -> "Column":
        return F.transform(
            name,
            lambda entry: F.struct(
                F.lit(name).alias("list"),
                entry[0].alias("topic"),
                entry[1].cast("int").alias("partition"),
                entry[3].cast("long").alias("amount"),
            ),
        )

    samples = events.where(F.col("event") == "replication_sampled")
    every = F.concat(*(entries(name) for name in _LISTS))
    return samples.select("start_ms", "interval_ms", F.explode(every).alias("entry")).select(
        "start_ms", "interval_ms", "entry.*"
    )


def _of_samples() -> "tuple[Column, ...]":
    shares = {"lag_p50": 0.5, "lag_p95": 0.95, "lag_p99": 0.99}
    lag = F.when(F.col("list") == "lags", F.col("amount"))
    return (
        *(F.percentile_approx(lag, share, _ACCURACY).alias(name) for name, share in shares.items()),
        F.max(lag).alias("lag_max"),
        *(
            (F.sum(F.when(F.col("list") == name, F.col("interval_ms"))) / _SECOND_MS).alias(f"{name}_s")
            for name in ("under_replicated", "stalled")
        ),
    )


def _floor(column: "Column", step: int) -> "Column":
    return (F.floor(column / step) * step).cast("long")


def _values(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if value is not None}
