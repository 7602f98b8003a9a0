"""`format("tidelog")`: what Spark calls. Thin; the deciding is in `planning`, the reading in `reading`.

Spark starts a Python process for each step of its planning, and each imports this: what only tasks need is imported by
tasks. Numba alone takes a third of a second.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.spark import schemas
from tidelog.spark.brokers import Brokers
from tidelog.spark.offsets import StreamOffsets, backlog, offsets_json, parse_offsets
from tidelog.spark.options import SourceOptions, parse
from tidelog.spark.planning import Planner
from tidelog.spark.pushdown import Narrowing
from tidelog.spark.ranges import OffsetRange, rate_limited
from tidelog.spark.sink import BatchWriter, StreamWriter, sink_options

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger("tidelog.spark")


class RangePartition(InputPartition):
    """One task."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(None)
        self.wanted = wanted


class TidelogDataSource(DataSource):
    """A topic as a table, or as a stream of rows."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        # The options are not known to be a batch's or a stream's yet: only what the schema needs is looked at.
        return schemas.of(self.options)

    def reader(self, schema: StructType) -> "BatchReader":
        schemas.check(schema, self.options)
        options = _logged(parse(self.options, streaming=False))
        return NarrowedReader(options) if options.push_filters else BatchReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        return BatchWriter(sink_options(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802 - Spark's name
        # Spark says overwrite for the output mode complete, which appends here too, as it does with Kafka's sink.
        return StreamWriter(sink_options(self.options, schema, overwrite=False))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 - Spark's name
        schemas.check(schema, self.options)
        return StreamReader(_logged(parse(self.options, streaming=True)))


def _logged(options: SourceOptions) -> SourceOptions:
    for line in options.warnings:
        log.warning("%s", line)
    return options


def _read(options: SourceOptions, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    from tidelog.spark.reading import read

    # A query without a task gets one of Spark's own, with nothing in it.
    return read(options, partition.wanted) if isinstance(partition, RangePartition) else iter(())


class BatchReader(DataSourceReader):
    """A range of every partition, fixed when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        brokers = Brokers(self._options)
        try:
            planner = Planner(self._options, brokers)
            ranges = self._narrowing.apply(planner.batch_ranges(), brokers.at_times)
            return [RangePartition(each) for each in planner.cut(ranges)]
        finally:
            brokers.close()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(self._options, partition)


class NarrowedReader(BatchReader):
    """For a frame that is filtered once (S7). Spark 4.3 keeps what a reader has planned with the frame that was loaded
    and not with the query: every other query of it, filtered otherwise or not at all, would read what the last filter
    left. So it is asked for by name (docs/decisions/0019).
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        return list(self._narrowing.push(filters))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver as long as the query runs; tasks get copies of it, without its connections."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers: Brokers | None = None
        self._frozen: StreamOffsets | None = None
        self._is_available_now = False
        self._latest: StreamOffsets | None = None
        self._triggered_s: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_brokers": None}

    @property
    def _planner(self) -> Planner:
        if self._brokers is None:
            self._brokers = Brokers(self._options)
        return Planner(self._options, self._brokers)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return offsets_json(self._planner.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._options.pause_file is not None and Path(self._options.pause_file).exists():
            # Who wants to stop a query between two batches has no other way to keep the next from beginning.
            return start
        begun = parse_offsets(start)
        planner = self._planner
        latest = self._ends(begun)
        self._latest = latest
        if isinstance(limit, ReadAllAvailable):
            return offsets_json(latest)
        begun = planner.begin_new({tp: at for tp, at in begun.items() if tp in latest}, latest)
        if self._waits_for_more(begun, latest):
            return start
        most = self._options.max_offsets_per_trigger
        if most is None:
            return offsets_json(latest)
        limited = rate_limited(
            most, {tp: at.offset for tp, at in begun.items()}, {tp: at.offset for tp, at in latest.items()}
        )
        return offsets_json(planner.positions(limited, begun, latest))

    def _ends(self, begun: StreamOffsets) -> StreamOffsets:
        if not self._is_available_now:
            return self._planner.latest(begun)
        self._frozen = (
            self._planner.latest(begun) if self._frozen is None else self._planner.frozen(self._frozen, begun)
        )
        return self._frozen

    def _waits_for_more(self, begun: StreamOffsets, latest: StreamOffsets) -> bool:
        """Too little for a batch, and not for too long (minOffsetsPerTrigger, maxTriggerDelay)."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._is_available_now:
            return False
        assert self._brokers is not None
        now_s = self._brokers.now_s()
        waited_ms = float("inf") if self._triggered_s is None else 1000 * (now_s - self._triggered_s)
        if waited_ms < self._options.max_trigger_delay_ms and backlog(begun, latest) < least:
            return True
        self._triggered_s = now_s
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return offsets_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._planner.stream_ranges(parse_offsets(start), parse_offsets(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return _read(self._options, partition)

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None
