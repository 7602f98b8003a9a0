"""A run's numbers in Prometheus' text format, and a small server of them on loopback (L2)."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tidelog.jobs.pipeline.state import RUNNING, STARTING, STOPPING

_GAUGE: Final = "gauge"
_COUNTER: Final = "counter"
# name, kind, help, key of a query's state, factor
_NUMBERS: Final = (
    ("rows_per_second", _GAUGE, "Rows read a second in the newest batch.", "rows_per_second", 1.0),
    ("batch_duration_seconds", _GAUGE, "How long the newest batch took.", "batch_ms", 0.001),
    ("rows_total", _COUNTER, "Rows read since the run began.", "total_rows", 1.0),
    ("batches_total", _COUNTER, "Batches since the run began.", "total_batches", 1.0),
    ("dead_letters_total", _COUNTER, "Records that could not be decoded, since the run began.", "dead_letters", 1.0),
)


def exposition(state: Mapping[str, Any]) -> str:
    """Of what a state file holds."""
    pipeline = _label(state["name"])
    queries = [(_label(each["name"]), each) for each in state["queries"]]
    up = int(state["state"] in (STARTING, RUNNING, STOPPING))
    lines = _head("up", _GAUGE, "1 while the pipeline runs.")
    lines.append(f'tidelog_pipeline_up{{pipeline="{pipeline}"}} {up}')
    for name, kind, words, key, factor in _NUMBERS:
        lines += _head(name, kind, words)
        for query, each in queries:
            lines.append(
                f'tidelog_pipeline_{name}{{pipeline="{pipeline}",query="{query}"}} {round(each[key] * factor, 6):g}'
                if factor != 1.0 or isinstance(each[key], float)
                else f'tidelog_pipeline_{name}{{pipeline="{pipeline}",query="{query}"}} {each[key]}'
            )
    lines += _head("backlog_records", _GAUGE, "Records that wait to be read.")
    for query, each in queries:
        for source, count in each["backlog"].items():
            labels = f'pipeline="{pipeline}",query="{query}",source="{_label(source)}"'
            lines.append(f"tidelog_pipeline_backlog_records{{{labels}}} {count}")
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, words: str) -> list[str]:
    return [f"# HELP tidelog_pipeline_{name} {words}", f"# TYPE tidelog_pipeline_{name} {kind}"]


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
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
