"""The export on Spark: a streaming query that takes what is there and ends. Its checkpoint lies in the directory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidelog.jobs.drivers import jvm_of
from tidelog.jobs.export.folder import ExportFolder, Identity, Mode
from tidelog.jobs.failures import lost_records
from tidelog.jobs.session import kafka_options
from tidelog.jobs.sharing import require_shared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a transaction has taken back was never there.
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


class RecordsLost(Exception):
    """Records were lost, or replaced, before or after they were exported; the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What one run did."""

    records: int
    # Files of runs before this one that never counted.
    swept: int
    # Of the table, if it is one of latest values.
    rows: int | None
    # As in the checkpoint; None if nothing was new.
    offsets: dict[str, Any] | None


def export(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    directory: Path,
    *,
    mode: Mode = Mode.DAYS,
    text: bool = False,
    fail_on_data_loss: bool = True,
    security: Mapping[str, str] | None = None,
) -> Exported:
    """Everything that is new in the topic since the last run, each record once, however runs end.

    NotShared if executors have another directory under that path, RecordsLost if the topic's history is another one
    than that of the last run, unless the caller takes that.
    `security` are a Kafka client's `security.protocol`, `ssl.*` and `sasl.*`.
    """
    folder = ExportFolder(directory)
    with folder.held(Identity(topic=topic, mode=mode.value, text=text), jvm_of(spark)):
        require_shared(spark, [str(folder.path)])
        swept = folder.sweep() if mode is Mode.DAYS else 0
        before = folder.committed()
        options = kafka_options(bootstrap, security) | _COMMITTED | {"failOnDataLoss": str(fail_on_data_loss).lower()}
        frame = _source(spark, options, topic, text=text)
        if mode is Mode.DAYS:
            days = frame.withColumn("day", F.to_date("timestamp"))
            writer = days.writeStream.format("parquet").partitionBy("day").option("path", str(folder.path))
        else:
            writer = frame.writeStream.foreachBatch(merging(spark, folder))
        query = (
            writer.option("checkpointLocation", str(folder.checkpoint))
            .queryName(f"export {topic}")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            lost = lost_records(error)
            if lost is None:
                raise
            raise RecordsLost(lost) from error
        finally:
            query.stop()
        folder.require(folder.committed() - before)
        progress = [each for each in query.recentProgress if each.numInputRows]
        manifest = folder.manifest()
        return Exported(
            records=sum(each.numInputRows for each in progress),
            swept=swept,
            rows=None if manifest is None else manifest["rows"],
            offsets=_offsets(progress[-1].sources[0].endOffset) if progress else None,
        )


def _offsets(told: Any) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(told) if isinstance(told, str) else told
    return found


def _source(spark: "SparkSession", options: Mapping[str, str], topic: str, *, text: bool) -> "DataFrame":
    frame = (
        spark.readStream.format("tidelog")
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("includeEpoch", "true")
        .load()
    )
    kind = "string" if text else "binary"
    return frame.select(
        F.col("key").cast(kind).alias("key"),
        F.col("value").cast(kind).alias("value"),
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "leaderEpoch",
    )


def merging(spark: "SparkSession", folder: ExportFolder) -> "Callable[[DataFrame, int], None]":
    """What a micro-batch does to a table of latest values: a new table, and then the manifest names it."""

    def merge(batch: "DataFrame", number: int) -> None:
        manifest = folder.manifest()
        if manifest is not None and manifest["batch"] >= number:
            # This batch was merged before its query ended.
            folder.link()
            return
        current, table = folder.current(), folder.next_table(number)
        merged = latest(_rows(batch, _BATCH) if current is None else _with(spark, current, batch))
        merged.write.parquet(str(table))
        folder.publish(table, number, spark.read.parquet(str(table)).count())

    return merge


_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
# Whatever their offsets are, the records of a batch came after those of the table: history may have been rewritten, or
# the topic made anew.
_AGE, _TABLE, _BATCH = "_age", 0, 1


def _rows(frame: "DataFrame", age: int) -> "DataFrame":
    return frame.select(*_COLUMNS, F.lit(age).alias(_AGE))


def _with(spark: "SparkSession", current: Path, batch: "DataFrame") -> "DataFrame":
    return _rows(spark.read.parquet(str(current)), _TABLE).unionByName(_rows(batch, _BATCH))


def latest(records: "DataFrame") -> "DataFrame":
    """Of each key the newest record, unless that is a tombstone. Within a partition the batch goes before the table,
    then offsets decide; a key that has been in several, since partitions were added, is as new as its timestamp says.
    Records without a key have no place here.
    """
    fields = [F.col(name) for name in _COLUMNS[1:]]
    by_partition = (
        records.where(F.col("key").isNotNull())
        .groupBy("key", F.col("partition").alias("from"))
        .agg(F.max_by(F.struct(*fields), F.struct(_AGE, "offset")).alias("newest"))
    )
    by_key = by_partition.groupBy("key").agg(
        F.max_by("newest", F.struct("newest.timestamp", "newest.partition")).alias("newest")
    )
    return by_key.select("key", "newest.*").where(F.col("value").isNotNull())
