"""Which Python Spark's workers run. They must be able to import what this program imports.

Spark starts `python3` from PATH unless PYSPARK_PYTHON names another Python. In a virtual environment that is not
activated, that Python has neither this package nor PyArrow, and a query ends with ModuleNotFoundError.
"""

import inspect
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

log = logging.getLogger("tidelog.spark")

_CHOSEN: Final = "PYSPARK_PYTHON"
_PATIENCE_S: Final = 20.0
_PROBE_SOURCE: Final = "tidelog_python_probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """What is known of a Python."""

    executable: str
    prefix: str
    version: str
    lacks: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    def __str__(self) -> str:
        return f"Python {self.version} ({self.executable})"


def own() -> Python:
    return Python(executable=sys.executable, prefix=sys.prefix, version=".".join(map(str, sys.version_info[:3])))


@contextmanager
def own_python(context: "SparkContext") -> Iterator[None]:
    """Inside, what is registered runs on this program's Python. Afterwards too, unless the user has chosen another:
    then only what was registered does.
    """
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        if _CHOSEN in os.environ:
            context.pythonExec = before


def difference(workers: Python, mine: Python) -> str | None:
    """Why a query would fail on the workers' Python, in one line that says what to do; None if it fits."""
    if workers.prefix == mine.prefix:
        return None
    reasons = []
    if workers.minor != mine.minor:
        reasons.append(f"Spark needs the same minor version in both: this program runs {mine}")
    if workers.lacks:
        reasons.append(f"it lacks {' and '.join(workers.lacks)}")
    if not reasons:
        return None
    return (
        f"Spark's Python workers run {workers}: {'; '.join(reasons)}. "
        f"Set {_CHOSEN} to a suitable Python before Spark starts"
    )


def report(executable: str, *, needs: tuple[str, ...]) -> None:
    """Logs one line if `executable`, as this machine finds it, does not fit."""
    if executable == sys.executable:
        return
    try:
        done = subprocess.run(
            [executable, "-c", f"{_program(needs)}print(found)"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
        line = difference(_parsed(done.stdout, needs), own())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        line = f"Spark's Python workers run {executable!r}, which does not start: {_short(error)}. Set {_CHOSEN}"
    if line is not None:
        log.warning("%s", line)


def report_server(spark: "SparkSession", *, needs: tuple[str, ...]) -> None:
    """As `report`, of a Spark Connect server: its own Python worker answers, which no task is needed for."""
    spark.dataSource.register(_probe_source(needs))
    try:
        [answer] = spark.read.format(_PROBE_SOURCE).load().schema.names
        line = difference(_parsed(bytes.fromhex(answer).decode(), needs), own())
    except Exception as error:  # noqa: BLE001 - Spark's errors have no common class under Connect; all are reported
        line = f"the Python workers of the Spark Connect server cannot be asked for their Python: {_short(error)}"
    if line is not None:
        log.warning("%s", line)


def _probe_source(needs: tuple[str, ...]) -> "type[DataSource]":
    """A source whose only column is named by the answer, as hexadecimal text."""
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import IntegerType, StructField, StructType

    code, name = _program(needs), _PROBE_SOURCE

    # Local, so that it is pickled by value: a server that lacks this package runs it all the same.
    class PythonProbe(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            found: dict[str, str] = {}
            exec(code, found)
            return StructType([StructField(found["found"].encode().hex(), IntegerType())])

    return PythonProbe


def _examine(names: tuple[str, ...]) -> str:
    # Runs in the workers' Python, from its text: it uses the standard library only.
    import importlib.util
    import json
    import platform
    import sys

    have = {name: importlib.util.find_spec(name) is not None for name in names}
    return json.dumps(
        {"executable": sys.executable, "prefix": sys.prefix, "version": platform.python_version(), **have}
    )


def _program(names: tuple[str, ...]) -> str:
    return f"{inspect.getsource(_examine)}\nfound = _examine({names!r})\n"


def _parsed(text: str, needs: tuple[str, ...]) -> Python:
    found = json.loads(text)
    return Python(
        executable=found["executable"],
        prefix=found["prefix"],
        version=found["version"],
        lacks=tuple(name for name in needs if not found[name]),
    )


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
