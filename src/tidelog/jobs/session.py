"""A Spark session for a job: `local[*]` unless a master is named, with `format("tidelog")` in it."""

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.jobs.failures import is_sparks, one_line
from tidelog.jobs.java import why_no_java
from tidelog.jobs.workers import end_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_LOGGING: Final = Path(__file__).parent / "log4j2.properties"
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Asked of the brokers so often while nothing happens: Spark's own 10 ms are meant for what costs nothing.
    "spark.sql.streaming.pollingDelay": "100ms",
}
# Of a driver whose executors are its own: it needs no name that others can find.
_LOCAL_DEFAULTS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
# What Spark takes; of anything else its launcher tells with a trace of its own.
_MASTERS: Final = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|spark://.+|k8s://.+|yarn"
)
# Errors that are raised as well; there they stand again, as JSON with a stack of frames.
_ECHOES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class NoSpark(RuntimeError):
    """Something that Spark needs is not there, in one line that says how to get it."""


def why_no_spark() -> str | None:
    """What is missing, and how to get it; None when a session can be started."""
    no_java = why_no_java()
    if no_java is not None:
        return no_java
    missing = [name for name in ("pyspark", "pyarrow", "numba", "numpy") if find_spec(name) is None]
    return f"{missing[0]} is missing: pip install tidelog[spark]" if missing else None


def kafka_options(bootstrap: str, security: Mapping[str, str] | None = None) -> dict[str, str]:
    """How a source or sink connects, from a client's properties."""
    return {"kafka.bootstrap.servers": bootstrap} | {f"kafka.{key}": value for key, value in (security or {}).items()}


def start(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """NoSpark without Java, without PySpark, or where the master does not answer."""
    reason = why_no_spark()
    if reason is not None:
        raise NoSpark(reason)
    chosen = master or (settings or {}).get("spark.master") or LOCAL
    if _MASTERS.fullmatch(chosen) is None:
        raise NoSpark(f"{chosen} is no Spark master: local[*], local[N], spark://HOST:PORT, k8s://URL and yarn are")
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    import tidelog.spark

    for each in _ECHOES:
        PySparkLogger.getLogger(each).disabled = True
    defaults = _DEFAULTS | (_LOCAL_DEFAULTS if chosen.startswith("local") else {})
    conf = {**tidelog.spark.SETTINGS, **defaults, **(settings or {})}
    if chosen.startswith("local") and "spark.pyspark.python" not in conf:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Without it Spark starts whichever python3 comes first in the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    if "spark.driver.extraJavaOptions" not in conf and "SPARK_CONF_DIR" not in os.environ:
        conf["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{_LOGGING}"
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if not is_sparks(error):
            raise
        raise NoSpark(f"Spark does not start on {chosen}: {one_line(error)}") from error
    tidelog.spark.register(session)
    return session


def stop(session: "SparkSession") -> None:
    """Without a word of what ends with it."""
    end_workers(session)
    session.stop()
