"""Runs the queries of a pipeline until they end, fail, or somebody wants them to stop (L2, L3)."""

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.jobs.drivers import jvm_of
from tidelog.jobs.failures import one_line
from tidelog.jobs.pipeline import state as states
from tidelog.jobs.pipeline.model import Pipeline, Source
from tidelog.jobs.pipeline.queries import COUNT, Builder
from tidelog.jobs.pipeline.state import QueryState, RunState, StateFolder
from tidelog.spark.offsets import BadOffsets, backlog, parse_offsets

_POLL_S: Final = 0.1
_TOO_SLOW: Final = "Python worker failed to connect back"
_MOST_RESTARTS: Final = 3
_LATE: Final = "numRowsDroppedByWatermark"

# Told of a query that has done a batch.
Report = Callable[[RunState, QueryState], None]


class PipelineFailed(RuntimeError):
    """In one line."""


class Run:
    """One run, in a session that is there and a state folder that is held. Any thread or signal may call `stop`."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, folder: StateFolder, report: Report) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._folder = folder
        self._report = report
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        jvm = jvm_of(spark)
        self.state = RunState(
            name=pipeline.name,
            file=str(pipeline.file),
            master=spark.sparkContext.master or "",
            pid=os.getpid(),
            started_ms=_now_ms(),
            jvm_pid=jvm.pid,
            jvm_born=jvm.born,
        )
        self._seen: dict[str, int] = {}
        # When the newest progress began that was looked at.
        self._looked_at: dict[str, str] = {}
        self._starts: dict[str, Callable[[], StreamingQuery]] = {}
        self._restarts: dict[str, int] = {}
        self._idle: set[str] = set()

    def stop(self) -> None:
        """After the batches that run now; the second time at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def run(self, *, once: bool = False) -> RunState:
        """PipelineFailed if a query does. All have ended then."""
        self._write(states.STARTING)
        queries: dict[str, StreamingQuery] = {}
        try:
            builder = Builder(self._spark, self._pipeline, self._folder.folder, self._folder.pause_file)
            planned = builder.plan(once=once)
            self.state.queries = [QueryState(name=each.name, sink=each.sink) for each in planned]
            self._starts = {each.name: each.start for each in planned}
            for each in planned:
                queries[each.name] = each.start()
            self._write(states.RUNNING)
            self._follow(queries)
        except BaseException as error:
            for query in queries.values():
                query.stop()
            words = one_line(error)
            self._write(states.FAILED, words)
            if isinstance(error, Exception) and not isinstance(error, PipelineFailed):
                raise PipelineFailed(words) from error
            raise
        self._write(states.ENDED)
        return self.state

    def _follow(self, queries: dict[str, StreamingQuery]) -> None:
        while True:
            # Asked before the look: who ends right after it has a last batch, or a failure, that nobody has seen.
            over = not any(query.isActive for query in queries.values())
            if not self._look(queries) and over:
                return
            if self._stopping.is_set():
                self._end(queries)
            self._stopping.wait(_POLL_S)
            if self._stopping.is_set():
                # Set once, it does not make us wait any more.
                self._hurry.wait(_POLL_S)

    def _start_again(self, queries: dict[str, StreamingQuery], name: str, failure: Exception) -> bool:
        """Spark gives a Python process ten seconds to begin, which on a busy machine may be too few."""
        tried = self._restarts.get(name, 0)
        if _TOO_SLOW not in str(failure) or self._stopping.is_set() or tried == _MOST_RESTARTS:
            return False
        self._restarts[name] = tried + 1
        queries[name] = self._starts[name]()
        return True

    def _end(self, queries: dict[str, StreamingQuery]) -> None:
        if self.state.state != states.STOPPING:
            self._folder.pause_file.touch()
            self._write(states.STOPPING)
        for name, query in queries.items():
            if not query.isActive:
                continue
            is_idle = not query.status["isTriggerActive"]
            # A batch is seen as ended a moment before it is reported: what is idle twice has reported all it did.
            if self._hurry.is_set() or (is_idle and name in self._idle):
                query.stop()
            elif is_idle:
                self._idle.add(name)

    def _look(self, queries: dict[str, StreamingQuery]) -> bool:
        """True if one was started again: it is not over, whatever the others are."""
        again = False
        for known in self.state.queries:
            query = queries[known.name]
            failure = query.exception()
            for progress in self._unseen(known.name, query):
                if self._take(known, json.loads(progress.json)):
                    self._write(self.state.state)
                    self._report(self.state, known)
            if failure is not None:
                if not self._start_again(queries, known.name, failure):
                    raise PipelineFailed(f"{known.name}: {one_line(failure)}")
                again = True
        return again

    def _unseen(self, name: str, query: StreamingQuery) -> list[StreamingQueryProgress]:
        """What Spark has kept, if there is something new in it: it is up to a hundred objects of the JVM."""
        newest = query.lastProgress
        if newest is None or newest.timestamp == self._looked_at.get(name):
            return []
        self._looked_at[name] = newest.timestamp
        return list(query.recentProgress)

    def _take(self, known: QueryState, progress: Mapping[str, Any]) -> bool:
        """True for a batch that was not seen. While nothing comes Spark repeats the number of the next one."""
        found = self._backlog(progress)
        if found:
            known.backlog |= found
        batch_id, rows = int(progress["batchId"]), int(progress["numInputRows"])
        durations = progress.get("durationMs", {})
        if batch_id <= self._seen.get(known.name, -1) or "addBatch" not in durations:
            return False
        self._seen[known.name] = batch_id
        known.batch_id = batch_id
        known.rows = rows
        known.batch_ms = int(durations.get("triggerExecution", 0))
        known.rows_per_second = 1000 * rows / known.batch_ms if known.batch_ms else 0.0
        known.total_rows += rows
        known.total_batches += 1
        observed = progress.get("observedMetrics", {}).get(COUNT)
        if observed:
            known.dead_letters += int(observed[COUNT])
        known.late_rows += sum(int(each.get(_LATE, 0)) for each in progress.get("stateOperators", ()))
        return True

    def _backlog(self, progress: Mapping[str, Any]) -> dict[str, int]:
        """Records between what a batch ended at and what was there when it began, by source."""
        found: dict[str, int] = {}
        for each in progress.get("sources", ()):
            try:
                end, latest = (parse_offsets(_offsets(each.get(key))) for key in ("endOffset", "latestOffset"))
            except BadOffsets:
                # A stream that a function made by itself, from something else.
                continue
            topics = {tp.topic for tp in latest}
            for source in self._pipeline.sources:
                if topics and all(_reads(source, topic) for topic in topics):
                    found[source.name] = found.get(source.name, 0) + backlog(end, latest)
                    break
        return found

    def _write(self, state: str, error: str | None = None) -> None:
        self.state.state = state
        self.state.error = error
        self.state.updated_ms = _now_ms()
        self._folder.write(self.state)


def _offsets(found: Any) -> Mapping[str, Any]:
    if isinstance(found, str):
        found = json.loads(found)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadOffsets(f"{found!r} is not an offset of this source")
    return found


def _reads(source: Source, topic: str) -> bool:
    options = {key.lower(): value for key, value in source.options.items()}
    if "subscribepattern" in options:
        return re.search(options["subscribepattern"].strip(), topic) is not None
    if "assign" in options:
        return topic in json.loads(options["assign"])
    return topic in (each.strip() for each in options.get("subscribe", "").split(","))


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - people read it beside their own clocks
