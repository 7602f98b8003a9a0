"""`format("tidelog-segments")` and `format("tidelog-replicas")`: batches of replicas as rows, from disks or brokers.

For a directory: ``spark.read.format("tidelog-segments").load("/var/lib/tidelog")``. A task is a segment, or a replica.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.client.security import Security
from tidelog.jobs.audit import layout, live
from tidelog.jobs.audit.rows import SCHEMA, TYPES, AuditRow
from tidelog.jobs.audit.segments import Segment, audit_segment, require_own_disk
from tidelog.spark.kafka_keys import Side
from tidelog.spark.options import Given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a source is told as text, beside Spark's own option `path`.
PLAN: Final = "plan"
RECORDS: Final = "records"
_ROWS: Final = 20_000
_ARROW: Final = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}


def register(spark: "SparkSession") -> None:
    spark.dataSource.register(SegmentsSource)
    spark.dataSource.register(ReplicasSource)


def arrow_batches(rows: Iterable[AuditRow]) -> Iterator[pa.RecordBatch]:
    """Rows as Spark wants them, so many at a time."""
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in TYPES.items()])
    walk = iter(rows)
    while some := list(islice(walk, _ROWS)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*some, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Task(InputPartition):
    def __init__(self, work: "Segment | live.RemoteReplica") -> None:
        super().__init__(None)
        self.work = work


class _Reader(DataSourceReader):
    def __init__(
        self,
        works: "Sequence[Segment | live.RemoteReplica]",
        *,
        reads_records: bool,
        security: Security | None = None,
    ) -> None:
        self._works = works
        self._reads_records = reads_records
        self._security = security

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(each) for each in self._works]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # A query without a task gets one of Spark's own, with nothing in it.
        if not isinstance(partition, _Task):
            return iter(())
        if isinstance(partition.work, Segment):
            require_own_disk(partition.work)
            return arrow_batches(audit_segment(partition.work, reads_records=self._reads_records))
        rows = live.audit_replica(partition.work, reads_records=self._reads_records, security=self._security)
        return arrow_batches(rows)

    def __getstate__(self) -> dict[str, object]:
        # Tasks are told their own share.
        return self.__dict__ | {"_works": ()}


class SegmentsSource(DataSource):
    """The batches in the segments of log directories."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-segments"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "_Reader":
        plan, path = self.options.get(PLAN), self.options.get("path")
        if plan is not None:
            segments = layout.from_json(plan)
        elif path is not None:
            found = layout.scan(layout.log_directories([Path(path)]))
            segments = [segment for log in found.logs for segment in log.segments()]
        else:
            raise ValueError("tidelog-segments needs a directory: .load(DIR)")
        return _Reader(segments, reads_records=_flag(self.options.get(RECORDS)))


class ReplicasSource(DataSource):
    """The batches of the replicas of a running cluster."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-replicas"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "_Reader":
        plan, bootstrap = self.options.get(PLAN), self.options.get("kafka.bootstrap.servers")
        security = Given(self.options).kafka(Side.SOURCE).security()
        if plan is not None:
            replicas = [live.RemoteReplica(**each) for each in json.loads(plan)]
        elif bootstrap is not None:
            topics = [each.strip() for each in self.options.get("subscribe", "").split(",") if each.strip()]
            replicas = live.plan_live(bootstrap, topics, security).replicas
        else:
            raise ValueError("tidelog-replicas needs the option kafka.bootstrap.servers")
        return _Reader(replicas, reads_records=_flag(self.options.get(RECORDS)), security=security)


def _flag(text: str | None) -> bool:
    return text != "false"


def remote_json(replicas: Sequence[live.RemoteReplica]) -> str:
    return json.dumps([asdict(each) for each in replicas])
