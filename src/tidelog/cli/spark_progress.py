"""Progress of a command on Spark, on standard error. A terminal gets one line that stays in place. Anything else gets a
line at the start, one when Spark is ready, and one every half minute.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from time import monotonic as now_s  # noqa: TID251 - for the eyes of a person only
from typing import TYPE_CHECKING, Any, Final, TextIO

from tidelog.jobs.failures import is_sparks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_DRAW_S: Final = 0.15
_TASKS_S: Final = 0.6
_PLAIN_S: Final = 30.0
_ERASE: Final = "\r\x1b[K"


class SparkProgress:
    """Draws in a thread of its own from its creation until `close`."""

    def __init__(self, name: str, *, out: TextIO | None = None, plain_s: float = _PLAIN_S) -> None:
        self._name = name
        self._out = sys.stderr if out is None else out
        self._in_place = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._every_s = _DRAW_S if self._in_place else plain_s
        self._began_s = now_s()
        self._words = "starting Spark"
        self._tasks = ""
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._print("starting Spark")
        self._thread = threading.Thread(target=self._run, name="spark-progress", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        return now_s() - self._began_s

    def ready(self, spark: "SparkSession", words: str) -> None:
        """Spark is there and works on what `words` say; from now on the tasks of its stages are counted."""
        self._print(f"Spark is ready after {self.seconds:.1f} s, {words}")
        self._words = words
        self._spark = spark

    def relay(self, line: str) -> None:
        """Another line for standard error, above the progress."""
        with self._lock:
            self._write(f"{_ERASE if self._in_place else ''}{line}\n")

    def close(self) -> None:
        """Before Spark is stopped. The terminal's line disappears."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._thread.join()
        if self._in_place:
            self._write(_ERASE)

    def _run(self) -> None:
        count_at_s = 0.0
        frame = 0
        while not self._closed.wait(self._every_s):
            if self.seconds >= count_at_s:
                self._tasks = self._counted()
                count_at_s = self.seconds + _TASKS_S
            if self._in_place:
                frame = (frame + 1) % len(_FRAMES)
                self._draw(_FRAMES[frame])
            else:
                self._print(f"{self._words}{self._tasks}, {self.seconds:.0f} s so far")

    def _draw(self, mark: str) -> None:
        with self._lock:
            self._write(f"{_ERASE}{mark} {self._name}: {self._words}{self._tasks}, {self.seconds:.0f} s")

    def _print(self, words: str) -> None:
        if self._in_place:
            self._draw(_FRAMES[0])
        else:
            with self._lock:
                self._write(f"{self._name}: {words}\n")

    def _write(self, text: str) -> None:
        # A closed standard error must end neither the command nor this thread.
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text)
            self._out.flush()

    def _counted(self) -> str:
        """How many tasks of the running stages are done."""
        spark = self._spark
        if spark is None:
            return ""
        try:
            tracker = spark.sparkContext.statusTracker()
            stages: list[Any] = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        except Exception as error:
            if not is_sparks(error) and not isinstance(error, OSError):
                raise
            # A session that is ending has nothing to count; the command reports why it ends.
            self._spark = None
            return ""
        total = sum(each.numTasks for each in stages if each is not None)
        done = sum(each.numCompletedTasks for each in stages if each is not None)
        return f": {done} of {total} tasks" if total else ""


@contextlib.contextmanager
def spark_progress(name: str) -> Iterator[SparkProgress]:
    progress = SparkProgress(name)
    try:
        yield progress
    finally:
        progress.close()
