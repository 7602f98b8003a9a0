"""The same query by our connector and by Spark's own, and what each makes of it."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.types import StructType
from tests.interop.spark.topics import Topics

R = TypeVar("R")

OURS, THEIRS = "tidelog", "kafka"
AT_ONCE = 4
# PySpark wraps what its own classes say, and what a connector's say it does not.
REFUSED = (PySparkException, Py4JJavaError)
# A poll that finds nothing is given up after this long; by default it is two minutes.
PATIENCE = {"kafkaConsumer.pollTimeoutMs": "5000"}


def plain(value: Any) -> Any:
    """Rows of both, so that they are equal if and only if they are the same."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value


def rows(frame: DataFrame) -> list[Any]:
    return sorted((plain(tuple(row)) for row in frame.collect()), key=lambda row: row[2:5])


def at_once(call: Callable[..., R], arguments: Iterable[tuple[Any, ...]]) -> list[R]:
    """The results, in order. A query mostly waits for one process or another: several at once take half as long."""
    session = SparkSession.getActiveSession()
    assert session is not None
    # In a thread of ours the JVM knows neither what is registered with the session nor what is set in it.
    active = SparkSession._get_j_spark_session_class(session._jvm).setActiveSession
    with ThreadPoolExecutor(AT_ONCE, initializer=active, initargs=(session._jsparkSession,)) as threads:
        return list(threads.map(lambda each: call(*each), arguments))


class Beside:
    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self.spark = spark
        self.topics = topics

    def table(self, kind: str, options: dict[str, str]) -> DataFrame:
        given = {"kafka.bootstrap.servers": self.topics.bootstrap, **PATIENCE, **options}
        return self.spark.read.format(kind).options(**given).load()

    def same_rows(self, **options: str) -> list[Any]:
        """The rows of a batch, which both find."""
        [found] = self.same_rows_each(options)
        return found

    def same_rows_each(self, *several: dict[str, str]) -> list[list[Any]]:
        """The rows of batches, each of which both find."""
        found = at_once(self._rows, [(kind, given) for given in several for kind in (OURS, THEIRS)])
        ours, theirs = found[::2], found[1::2]
        assert ours == theirs
        return [rows for _, rows in ours]

    def _rows(self, kind: str, options: dict[str, str]) -> tuple[StructType, list[Any]]:
        frame = self.table(kind, options)
        return frame.schema, rows(frame)

    def same_tasks(self, *several: dict[str, str]) -> list[int]:
        """As many tasks with records, each with the same in the same order, for each of several options."""
        found = at_once(self._tasks, [(kind, given) for given in several for kind in (OURS, THEIRS)])
        assert found[::2] == found[1::2]
        return [len(tasks) for tasks in found[::2]]

    def _tasks(self, kind: str, options: dict[str, str]) -> list[Any]:
        frame = self.table(kind, options).select(spark_partition_id(), "topic", "partition", "offset")
        tasks: dict[int, list[Any]] = {}
        for task, *record in frame.collect():
            tasks.setdefault(task, []).append(record)
        return sorted(tasks.values())

    def refusals(
        self, *several: Mapping[str, str | None], streaming: bool = False, folder: Path | None = None
    ) -> list[tuple[str, str]]:
        """What ours says, and what theirs says, to each of several options; empty for one that takes them."""
        said = at_once(
            self._refusal,
            [
                (kind, given, f"{folder}/{number}-{kind}" if streaming else None)
                for number, given in enumerate(several)
                for kind in (OURS, THEIRS)
            ],
        )
        return list(zip(said[::2], said[1::2], strict=True))

    def _refusal(self, kind: str, options: Mapping[str, str | None], checkpoint: str | None) -> str:
        wanted = {"kafka.bootstrap.servers": self.topics.bootstrap, **PATIENCE, **options}
        # An option that is None in the story is left out.
        given = {name: value for name, value in wanted.items() if value is not None}
        try:
            if checkpoint is not None:
                frame = self.spark.readStream.format(kind).options(**given).load()
                query = frame.writeStream.format("noop").trigger(availableNow=True)
                query.option("checkpointLocation", checkpoint).start().awaitTermination()
            else:
                self.spark.read.format(kind).options(**given).load().write.format("noop").mode("overwrite").save()
        except REFUSED as error:
            return str(error)
        return ""


class Streams:
    """One query for each connector, each with its checkpoint; what there is, and then they end."""

    def __init__(self, beside: Beside, folder: Path, **options: str) -> None:
        self._beside = beside
        self._folder = folder
        self.options = {"startingOffsets": "earliest", **options}

    def run(self, **options: str) -> dict[str, list[int]]:
        """The rows of each micro-batch."""
        ours, theirs = at_once(self._run, [(kind, options) for kind in (OURS, THEIRS)])
        return {OURS: ours, THEIRS: theirs}

    def _run(self, kind: str, options: dict[str, str]) -> list[int]:
        given = {"kafka.bootstrap.servers": self._beside.topics.bootstrap, **PATIENCE, **self.options, **options}
        frame = self._beside.spark.readStream.format(kind).options(**given).load()
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / kind / "table"))
        writer = writer.option("checkpointLocation", str(self._folder / kind / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    def rows(self, kind: str) -> list[Any]:
        return rows(self._beside.spark.read.parquet(str(self._folder / kind / "table")))
