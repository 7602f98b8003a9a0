"""Progress of a pipeline: a table that stays in place on a terminal, else a line for each batch."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.jobs.pipeline.state import QueryState, RunState


class Lines:
    """For a log, or as JSON for programs."""

    def __init__(self, name: str, *, is_json: bool) -> None:
        self._name = name
        self._is_json = is_json

    def __enter__(self) -> None:
        """Nothing to open."""

    def __exit__(self, *_: object) -> None:
        """Nothing to close: each line is flushed."""

    def relay(self, line: str) -> None:
        """A line that Spark's workers have printed."""
        print(line, file=sys.stderr, flush=True)

    def started(self, state: "RunState", metrics_port: int | None) -> None:
        if not self._is_json:
            where = "" if metrics_port is None else f", metrics at http://127.0.0.1:{metrics_port}/metrics"
            print(f"{self._name} runs on {state.master}{where}", flush=True)

    def __call__(self, state: "RunState", query: "QueryState") -> None:
        if self._is_json:
            print(json.dumps({"pipeline": state.name, "at_ms": state.updated_ms} | asdict(query)), flush=True)
        else:
            print(told(query), flush=True)


class Screen:
    """On a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._title = name
        self._live = Live(console=Console(), auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def relay(self, line: str) -> None:
        """A line that Spark's workers have printed, above the table."""
        self._live.console.print(line, markup=False, highlight=False)

    def started(self, state: "RunState", metrics_port: int | None) -> None:
        where = "" if metrics_port is None else f", metrics at http://127.0.0.1:{metrics_port}/metrics"
        self._title = f"{state.name} on {state.master}{where}; ctrl-C stops it after the batch"
        self._draw(state)

    def __call__(self, state: "RunState", query: "QueryState") -> None:
        self._draw(state)

    def _draw(self, state: "RunState") -> None:
        from rich.table import Table

        table = Table(title=self._title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for heading in ("query", "batch", "rows", "rows/s", "batch", "backlog", "dead letters", "late rows"):
            table.add_column(heading, justify="left" if heading in ("query", "backlog") else "right")
        for each in state.queries:
            if each.batch_id < 0:
                table.add_row(each.name, "-")
                continue
            table.add_row(
                each.name,
                str(each.batch_id),
                str(each.total_rows),
                f"{each.rows_per_second:.0f}",
                f"{each.batch_ms / 1000:.2f} s",
                _backlog(each),
                str(each.dead_letters or ""),
                str(each.late_rows or ""),
            )
        self._live.update(table, refresh=True)


def told(query: "QueryState") -> str:
    words = f"{query.name}: batch {query.batch_id}, {query.rows} rows in {query.batch_ms / 1000:.2f} s"
    words += f", {query.rows_per_second:.0f} rows/s, backlog {_backlog(query) or 0}"
    words += f", {query.dead_letters} dead letters so far" if query.dead_letters else ""
    return f"{words}, {query.late_rows} late rows so far" if query.late_rows else words


def _backlog(query: "QueryState") -> str:
    return ", ".join(f"{source} {count}" for source, count in query.backlog.items())


Display = Lines | Screen


def display(name: str, *, json: bool) -> Display:
    return Lines(name, is_json=json) if json or not sys.stdout.isatty() else Screen(name)
