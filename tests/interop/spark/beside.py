"""The same query by our connector and by Spark's own, and what each makes of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.interop.spark.topics import Topics

OURS, THEIRS = "tidelog", "kafka"
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


class Beside:
    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self.spark = spark
        self.topics = topics

    def table(self, kind: str, options: dict[str, str]) -> DataFrame:
        given = {"kafka.bootstrap.servers": self.topics.bootstrap, **PATIENCE, **options}
        return self.spark.read.format(kind).options(**given).load()

    def same_rows(self, **options: str) -> list[Any]:
        """The rows of a batch, which both find."""
        ours, theirs = (self.table(kind, options) for kind in (OURS, THEIRS))
        assert ours.schema == theirs.schema
        found, expected = rows(ours), rows(theirs)
        assert found == expected
        return found

    def same_tasks(self, **options: str) -> int:
        """As many tasks, each with the same records in the same order."""
        found, expected = (
            [
                [plain(tuple(row)) for row in task]
                for task in self.table(kind, options).select("topic", "partition", "offset").rdd.glom().collect()
            ]
            for kind in (OURS, THEIRS)
        )
        assert sorted(found) == sorted(expected)
        return len(found)

    def refusals(
        self, options: Mapping[str, str | None], *, streaming: bool = False, folder: Path | None = None
    ) -> list[str]:
        """What ours says, and what theirs says; empty for one that takes it."""
        wanted = {"kafka.bootstrap.servers": self.topics.bootstrap, **PATIENCE, **options}
        # An option that is None in the story is left out.
        given = {name: value for name, value in wanted.items() if value is not None}
        said = []
        for kind in (OURS, THEIRS):
            try:
                if streaming:
                    frame = self.spark.readStream.format(kind).options(**given).load()
                    query = frame.writeStream.format("noop").trigger(availableNow=True)
                    query.option("checkpointLocation", str(folder) + kind).start().awaitTermination()
                else:
                    self.spark.read.format(kind).options(**given).load().write.format("noop").mode("overwrite").save()
                said.append("")
            except REFUSED as error:
                said.append(str(error))
        return said


class Streams:
    """One query for each connector, each with its checkpoint; what there is, and then they end."""

    def __init__(self, beside: Beside, folder: Path, **options: str) -> None:
        self._beside = beside
        self._folder = folder
        self.options = {"startingOffsets": "earliest", **options}

    def run(self, **options: str) -> dict[str, list[int]]:
        """The rows of each micro-batch."""
        return {kind: self.run_one(kind, **options) for kind in (OURS, THEIRS)}

    def run_one(self, kind: str, **options: str) -> list[int]:
        given = {"kafka.bootstrap.servers": self._beside.topics.bootstrap, **PATIENCE, **self.options, **options}
        frame = self._beside.spark.readStream.format(kind).options(**given).load()
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / kind / "table"))
        writer = writer.option("checkpointLocation", str(self._folder / kind / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    def rows(self, kind: str) -> list[Any]:
        return rows(self._beside.spark.read.parquet(str(self._folder / kind / "table")))
