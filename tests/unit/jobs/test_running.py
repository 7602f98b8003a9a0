"""A run follows its queries to their very end, whenever that comes (L2)."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.jobs.drivers import Jvm
from tidelog.jobs.pipeline import running
from tidelog.jobs.pipeline.parsing import load
from tidelog.jobs.pipeline.queries import Planned
from tidelog.jobs.pipeline.running import PipelineFailed, Run
from tidelog.jobs.pipeline.state import ENDED, FAILED, StateFolder

PIPELINE = """
[pipeline]
checkpoint = "checkpoint"
[sources.orders]
topics = "orders"
[sinks.table]
from = "orders"
format = "parquet"
path = "table"
"""


class Query:
    """One that ends the moment somebody asks whether it runs, with a last batch that is told only then."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.recentProgress: list[Any] = []
        self._failure = failure
        self._ended = False

    @property
    def isActive(self) -> bool:
        if not self._ended:
            self._ended = True
            told = {"batchId": 0, "numInputRows": 30, "durationMs": {"addBatch": 5, "triggerExecution": 10}}
            self.recentProgress.append(SimpleNamespace(timestamp="now", json=json.dumps(told)))
        return False

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        return self._failure if self._ended else None

    def stop(self) -> None:
        self._ended = True


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Run, list[tuple[str, int]]]]:
    """A run of the given queries, one after the other where one is started again, and what it reports."""

    def make(*queries: Query) -> tuple[Run, list[tuple[str, int]]]:
        ready = iter(queries)
        planned = Planned(name="table", sink="out", start=lambda: next(ready))  # type: ignore[arg-type, return-value]
        monkeypatch.setattr(running, "jvm_of", lambda spark: Jvm())
        monkeypatch.setattr(running, "Builder", lambda *_: SimpleNamespace(plan=lambda *, once: [planned]))
        (tmp_path / "p.toml").write_text(PIPELINE)
        reported: list[tuple[str, int]] = []
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
        folder = StateFolder(tmp_path / "state")
        folder.folder.mkdir()
        pipeline = load(tmp_path / "p.toml", bootstrap="localhost:9092")
        return Run(session, pipeline, folder, lambda _, query: reported.append((query.name, query.rows))), reported

    return make


def test_the_last_batch_counts_when_its_query_ends_after_the_look_at_it(started: Callable[..., Any]) -> None:
    run, reported = started(Query())
    assert run.run(once=True).state == ENDED
    assert reported == [("table", 30)]
    assert run.state.queries[0].total_rows == 30


def test_a_failure_counts_when_it_comes_after_the_look(started: Callable[..., Any]) -> None:
    run, _ = started(Query(RuntimeError("the disk is full")))
    with pytest.raises(PipelineFailed, match="the disk is full"):
        run.run(once=True)
    assert run.state.state == FAILED


def test_a_query_that_is_started_again_is_followed_too(started: Callable[..., Any]) -> None:
    run, _ = started(Query(RuntimeError("Python worker failed to connect back")), Query(RuntimeError("the second one")))
    with pytest.raises(PipelineFailed, match="the second one"):
        run.run(once=True)
