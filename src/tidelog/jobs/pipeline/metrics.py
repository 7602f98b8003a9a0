"""A run's numbers in Prometheus' text format, and a small server of them on loopback (L2)."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal

from tidelog.core.exposition import CONTENT_TYPE, Metric, Sample, lines
from tidelog.jobs.pipeline.state import RUNNING, STARTING, STOPPING

_GAUGE: Final = "gauge"
_COUNTER: Final = "counter"
_Number = tuple[str, Literal["gauge", "counter"], str, str, float]
# name, kind, help, key of a query's state, factor
_NUMBERS: Final[tuple[_Number, ...]] = (
    ("rows_per_second", _GAUGE, "Rows read per second in the newest batch.", "rows_per_second", 1),
    ("batch_duration_seconds", _GAUGE, "How long the newest batch took.", "batch_ms", 0.001),
    ("rows_total", _COUNTER, "Rows read since the run began.", "total_rows", 1),
    ("batches_total", _COUNTER, "Batches since the run began.", "total_batches", 1),
    ("dead_letters_total", _COUNTER, "Records that could not be decoded, since the run began.", "dead_letters", 1),
    ("late_rows_total", _COUNTER, "Rows dropped behind the watermark, since the run began.", "late_rows", 1),
)


def exposition(state: Mapping[str, Any]) -> str:
    """Of what a state file holds; one of an older version has not all of it."""
    return "".join(lines(_metrics(state)))


def _metrics(state: Mapping[str, Any]) -> Iterator[Metric]:
    pipeline, queries = {"pipeline": state["name"]}, state["queries"]
    up = int(state["state"] in (STARTING, RUNNING, STOPPING))
    yield Metric(
        name="tidelog_pipeline_up",
        kind=_GAUGE,
        help="1 while the pipeline runs.",
        samples=[Sample(up, pipeline)],
    )
    for name, kind, words, key, factor in _NUMBERS:
        yield Metric(
            name=f"tidelog_pipeline_{name}",
            kind=kind,
            help=words,
            samples=[Sample(each.get(key, 0) * factor, {**pipeline, "query": each["name"]}) for each in queries],
        )
    yield Metric(
        name="tidelog_pipeline_backlog_records",
        kind=_GAUGE,
        help="Records still to be read.",
        samples=[
            Sample(count, {**pipeline, "query": each["name"], "source": source})
            for each in queries
            for source, count in each["backlog"].items()
        ],
    )


@contextmanager
def served(port: int | None, state: Callable[[], Mapping[str, Any]]) -> Iterator[int | None]:
    """The port it listens on, a free one for 0; nothing for None. OSError if it is taken."""
    if port is None:
        yield None
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = exposition(state()).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody wants a line for every scrape."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
