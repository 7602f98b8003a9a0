"""`.write.format("tidelog")` and `.writeStream.format("tidelog")`: what Spark calls; the writing is in `writing`."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.sink_options import SinkOptions, parse

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("tidelog.spark")


@dataclass
class Written(WriterCommitMessage):
    """What a task has acknowledged."""

    rows: int


def sink_options(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    types = {each.name: each.dataType.simpleString() for each in schema.fields}
    found = parse(options, types, overwrite=overwrite)
    for line in found.warnings:
        log.warning("%s", line)
    return found


def _write(options: SinkOptions, batches: "Iterator[pa.RecordBatch]") -> Written:
    # The driver needs none of it.
    from tidelog.spark.writing import write

    context = TaskContext.get()
    return Written(write(options, batches, 0 if context is None else context.partitionId()))


class BatchWriter(DataSourceArrowWriter):
    """Appends the rows of a frame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return _write(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of every micro-batch: at least once, since a batch that is run again is written again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return _write(self._options, iterator)
