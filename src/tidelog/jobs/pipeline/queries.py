"""The streaming queries of a pipeline: one for each sink, and one for the bad records of each source that decodes.

Each has a checkpoint of its own, so that each goes on where it was, whatever became of the others.
"""

import importlib
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as f

from tidelog.jobs import hadoop
from tidelog.jobs.batch_logs import newest_batch
from tidelog.jobs.pipeline import decoding, snapshots, starting
from tidelog.jobs.pipeline.model import DeadLetters, Pipeline, Sink, Source, Step

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# The name under which Spark reports how many bad records a batch had.
COUNT: Final = "dead_letters"
_FORMAT: Final = "tidelog"
_FILE_LOG: Final = "_spark_metadata"
_OWNER: Final = "_tidelog.owner"
_ID: Final = "_tidelog.id"
# Of a database that is written anew: its table stays what it is, with its types, keys and grants.
_TRUNCATES: Final = "truncate"
_SECURITY: Final = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")


class BadStep(RuntimeError):
    """A step that does not do what a step does, in one line."""


class ForeignFiles(RuntimeError):
    """A directory that was written with another checkpoint, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Not started yet. `sink` says in a word where it writes."""

    name: str
    sink: str
    start: "Callable[[], StreamingQuery]"


class Builder:
    """Of one pipeline in one session."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, folder: Path, pause_file: Path) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._folder = folder
        self._pause_file = pause_file
        self._views: dict[str, DataFrame] = {}
        self._streams: dict[str, DataFrame] = {}

    def plan(self, *, once: bool) -> list[Planned]:
        """Everything is looked at by Spark, nothing runs yet."""
        pipeline = self._pipeline
        for path in pipeline.python_files:
            self._spark.sparkContext.addPyFile(path)
        for source in pipeline.sources:
            self._add(source.name, self._good(source))
        for table in pipeline.tables:
            reader = self._spark.read.format(table.format).options(**table.options)
            if table.schema is not None:
                reader = reader.schema(table.schema)
            self._add(table.name, reader.load(table.path) if table.path else reader.load())
        for step in pipeline.steps:
            self._add(step.name, self._result(step))
        trigger: dict[str, Any] = {"availableNow": True}
        if not once and pipeline.interval_ms is not None:
            trigger = {"processingTime": f"{pipeline.interval_ms} milliseconds"}
        for sink in pipeline.sinks:
            if sink.path is not None and sink.keeps_log:
                self._check_log(sink.name, sink.path)
            elif sink.path is not None and sink.is_whole:
                # Each would call its own table the current one, and clear away the other's.
                self._claim(sink.name, sink.path)
        made = [(sink.name, _place(sink), self._writer(sink)) for sink in pipeline.sinks]
        if pipeline.dead_letters is not None:
            for source in pipeline.sources:
                if source.can_fail:
                    to, name = pipeline.dead_letters, f"dead_letters.{source.name}"
                    where = f"topic {to.topic}"
                    if to.path is not None:
                        where = to.path_of(source)
                        self._check_log(name, where)
                    made.append((name, where, self._letters(source, to)))
        return [self._planned(name, where, writer.trigger(**trigger)) for name, where, writer in made]

    def _checkpoint(self, name: str) -> str:
        return f"{self._pipeline.checkpoint}/queries/{name}"

    def _check_log(self, name: str, path: str) -> None:
        """ForeignFiles if Spark's log of written files is ahead of the query: Spark would take the query's batches for
        ones that were written, and leave them out without a word.
        """
        written = newest_batch(hadoop.names(self._spark, f"{path}/{_FILE_LOG}"))
        if written > newest_batch(hadoop.names(self._spark, f"{self._checkpoint(name)}/offsets")):
            raise ForeignFiles(
                f"{path} was written up to batch {written} with a checkpoint other than {self._checkpoint(name)}: "
                f"its {_FILE_LOG} would make Spark skip the batches of {name}; use another path, or that checkpoint"
            )
        # Two that have done as many batches, be it none yet, are told apart by name: Spark would take what one writes
        # for what the other has written.
        self._claim(name, path)

    def _claim(self, name: str, path: str) -> None:
        """ForeignFiles if another query, or one of the same name with another checkpoint, writes there."""
        own = f"{name} of {self._id()}"
        owner = hadoop.claim(self._spark, f"{path}/{_OWNER}", own)
        if owner != own:
            raise ForeignFiles(
                f"{path} belongs to {owner}, not to {own} ({self._pipeline.checkpoint}): Spark would take "
                f"the batches of one for those of the other; use another path, or remove its {_OWNER} if the owner no "
                "longer exists"
            )

    def _id(self) -> str:
        """Of the checkpoint, and moves with it."""
        return hadoop.claim(self._spark, f"{self._pipeline.checkpoint}/{_ID}", secrets.token_hex(8))

    def _planned(self, name: str, sink: str, writer: "DataStreamWriter") -> Planned:
        checkpoint = self._checkpoint(name)
        return Planned(
            name=name,
            sink=sink,
            start=lambda: writer.queryName(name).option("checkpointLocation", checkpoint).start(),
        )

    def _add(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._views[name] = frame

    # --- sources ---

    def _stream(self, source: Source) -> DataFrame:
        """Loaded once for all queries: Spark starts a Python process for each load. Every query reads for itself."""
        if source.name not in self._streams:
            if source.batch:
                # A table of a topic has ends. A stream over the same topic finds the records that it leaves out.
                options = {
                    name: value for name, value in source.options.items() if not name.lower().startswith("ending")
                }
            else:
                options = starting.settled(source, self._folder)
            reader = self._spark.readStream.format(_FORMAT).options(**options)
            self._streams[source.name] = reader.option("pauseFile", str(self._pause_file)).load()
        return self._streams[source.name]

    def _good(self, source: Source) -> DataFrame:
        if source.batch:
            return decoding.good(self._spark.read.format(_FORMAT).options(**source.options).load(), source)
        frame = decoding.good(self._stream(source), source)
        if source.watermark is not None:
            frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
        return frame

    # --- steps ---

    def _result(self, step: Step) -> DataFrame:
        if step.sql is not None:
            frame = self._spark.sql(step.sql)
        else:
            assert step.function is not None
            frame = self._function(step.function)(*(self._views[name] for name in step.inputs))
            if not isinstance(frame, DataFrame):
                raise BadStep(f"steps.{step.name}: {step.function} returned {type(frame).__name__}, not a DataFrame")
        if step.watermark is not None:
            frame = frame.withWatermark(step.watermark.column, step.watermark.delay)
        return frame

    def _function(self, path: str) -> Callable[..., Any]:
        module, _, name = path.partition(":")
        beside = str(self._pipeline.folder)
        if beside not in sys.path:
            sys.path.insert(0, beside)
        found = importlib.import_module(module)
        # Executors need not have the module: what of it runs there is sent as code, not by name.
        cloudpickle.register_pickle_by_value(found)  # type: ignore[no-untyped-call]
        function: Callable[..., Any] = getattr(found, name)
        return function

    # --- sinks ---

    def _writer(self, sink: Sink) -> "DataStreamWriter":
        frame = self._views[sink.input]
        if sink.format == _FORMAT and sink.encode is not None:
            key = [] if sink.key is None else [f.col(sink.key).cast("string").alias("key")]
            frame = frame.select(*key, f.to_json(f.struct("*")).alias("value"))
        options = sink.options | ({"topic": sink.topic} if sink.topic is not None else {})
        writer = frame.writeStream.outputMode(sink.mode)
        if sink.path is not None and sink.is_whole:
            path, file_format = sink.path, sink.format
            return writer.foreachBatch(lambda rows, batch: snapshots.write(rows, batch, path, file_format, options))
        if sink.each_batch:
            return writer.foreachBatch(lambda rows, _: _write_batch(rows, sink, options))
        writer = writer.format(sink.format).options(**options)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        return writer.option("path", sink.path) if sink.path is not None else writer

    def _letters(self, source: Source, to: DeadLetters) -> "DataStreamWriter":
        letters = decoding.bad(self._stream(source), source).observe(COUNT, f.count(f.lit(1)).alias(COUNT))
        if to.path is not None:
            return letters.writeStream.format("parquet").option("path", to.path_of(source))
        headers = f.array(
            *(
                f.struct(
                    f.lit(f"tidelog.{name}").alias("key"), f.col(name).cast("string").cast("binary").alias("value")
                )
                for name in ("source", "reason", "topic", "partition", "offset", "timestamp")
            )
        )
        frame = letters.select("key", "value", headers.alias("headers"))
        writer = frame.writeStream.format(_FORMAT).option("kafka.bootstrap.servers", to.bootstrap)
        told = {key.lower(): value for key, value in source.options.items()}
        if told.get("kafka.bootstrap.servers") == to.bootstrap:
            # The same cluster asks for the same name and password.
            writer = writer.options(**{key: value for key, value in told.items() if key.startswith(_SECURITY)})
        return writer.option("topic", str(to.topic))


def _write_batch(rows: DataFrame, sink: Sink, options: dict[str, str]) -> None:
    """At least once: a batch that runs again is written again. In mode `complete` a batch is the whole table."""
    if sink.mode != "complete":
        _save(rows.write.mode("append"), sink, options)
        return
    # Worked out before anything is written: whatever was there goes first, and would be gone if that failed.
    kept = rows.persist()
    try:
        kept.count()
        writer = kept.write.mode("overwrite")
        if sink.format == "jdbc" and _TRUNCATES not in {key.lower() for key in options}:
            writer = writer.option(_TRUNCATES, "true")
        _save(writer, sink, options)
    finally:
        kept.unpersist()


def _save(writer: DataFrameWriter, sink: Sink, options: dict[str, str]) -> None:
    writer = writer.format(sink.format).options(**options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save(sink.path) if sink.path is not None else writer.save()


def _place(sink: Sink) -> str:
    return sink.path or (f"topic {sink.topic}" if sink.topic else sink.format)
