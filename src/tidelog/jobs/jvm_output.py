"""What Spark's JVM and its Python workers print. All of it goes into a log; lines that are not Spark's or Java's own,
such as warnings of our source and prints of a user's function, also go to the terminal.
"""

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

# A line of log4j in our layout or in Spark's own, and what JVM and launcher print before logging is configured.
_JAVAS: Final = tuple(
    re.compile(each)
    for each in (
        r"(\d\d(/\d\d)*[ T])?\d\d:\d\d:\d\d(\.\d+)? (TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b",
        r"WARNING: |(OpenJDK|Java HotSpot)\(?.*\bwarning: |Picked up _?J",
        r"SLF4J|log4j|(ERROR|WARN) StatusLogger|Using Spark's default log4j",
        r"Setting default log level|Setting Spark log level|To adjust logging level",
        r"NOTE: SPARK_|Warning: Ignoring non-Spark|:: |Ivy Default Cache|The jars for the packages",
        r"\s+at [\w.$/<>]+\(|\s+\.\.\. \d+ more|Caused by: |Suppressed: |Exception in thread ",
        r"(java|scala|org\.apache)\.[\w.$]+",
    )
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'\s+File "(?P<file>[^"]*)"')
_SERIOUS: Final = re.compile(r".*(\bERROR\b|\bFATAL\b|Exception|Traceback|^Error|^Unrecognized)")
_DRAIN_S: Final = 1.0


def is_javas(line: str) -> bool:
    return any(each.match(line) is not None for each in _JAVAS)


def _is_pysparks(traceback: list[str]) -> bool:
    """Whether all frames are in PySpark, and none in our source or in a user's function."""
    files = [found["file"] for line in traceback if (found := _FRAME.match(line)) is not None]
    return bool(files) and all("/pyspark/" in file or "/pyspark.zip/" in file for file in files)


def _to_stderr(line: str) -> None:
    # A closed stderr must not end the thread that keeps the JVM's pipe empty.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class JvmOutput:
    """Reads one JVM's output until it ends. `relay` gets the lines for the terminal; a progress display replaces it."""

    def __init__(self) -> None:
        self.relay: Callable[[str], None] = _to_stderr
        self._is_serious = False
        self._first = ""
        # The lines of a Python traceback that has not ended.
        self._held: list[str] = []
        handle, name = tempfile.mkstemp(prefix="tidelog-spark-", suffix=".log")
        self.log: Path = Path(name)
        self._log: IO[str] = os.fdopen(handle, "w", encoding="utf-8", buffering=1)
        reading, self._writing = os.pipe()
        self._pipe: IO[str] = os.fdopen(reading, "r", encoding="utf-8", errors="replace")
        self._thread = threading.Thread(target=self._read, name="spark-output", daemon=True)

    def launched(self) -> None:
        """The JVM has the pipe, or could not be started."""
        os.close(self._writing)
        self._thread.start()

    @property
    def writing(self) -> int:
        """The file descriptor for the JVM's standard output and error."""
        return self._writing

    def _read(self) -> None:
        with self._pipe, self._log:
            for each in self._pipe:
                line = each.rstrip("\n")
                self._log.write(f"{line}\n")
                self._is_serious = self._is_serious or _SERIOUS.match(line) is not None
                self._take(line)
            self._release()

    def _take(self, line: str) -> None:
        if line == _TRACEBACK or (self._held and line.startswith(" ")):
            self._held.append(line)
            return
        if self._held and _is_pysparks(self._held):
            # It ends with this line. The daemon of Spark's workers prints one when Spark closes their connections.
            self._held.clear()
            return
        self._release()
        if not is_javas(line):
            self._first = self._first or line.strip()
            self.relay(line)

    def _release(self) -> None:
        for each in self._held:
            self.relay(each)
        self._held.clear()

    def reason(self) -> str:
        """Why a JVM ended before it was ready: Java explains it first, and then names the consequences."""
        self._thread.join(_DRAIN_S)
        return self._first

    def kept_log(self, *, failed: bool) -> Path | None:
        """The log of a failure, if it explains something; any other is removed. The JVM may go on writing to it."""
        if failed and self._is_serious:
            return self.log
        self.log.unlink(missing_ok=True)
        return None
