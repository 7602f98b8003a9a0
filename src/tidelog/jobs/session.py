"""A Spark session for a job: `local[*]` unless a master is named, with `format("tidelog")` in it."""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
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

# Py4J's, with a trace; it is raised as well.
_INTERRUPTED: Final = "KeyboardInterrupt while sending command."


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
    from pyspark import SparkConf, SparkContext
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
    take_interrupts = _interrupts()
    try:
        # Its context sets the handler; a session by itself takes some time after that.
        SparkContext.getOrCreate(SparkConf().setAppName(name).setMaster(chosen).setAll(list(conf.items())))
        take_interrupts()
        session = builder.getOrCreate()
    except Exception as error:
        if not is_sparks(error):
            raise
        raise NoSpark(f"Spark does not start on {chosen}: {one_line(error)}") from error
    if take_interrupts():
        # Raised where Python drops what is raised, in a finalizer for one.
        stop(session)
        raise KeyboardInterrupt
    tidelog.spark.register(session)
    return session


def _interrupts() -> Callable[[], bool]:
    """Ctrl-C ends what is asked of Spark. Its own handler asks the JVM for something while an answer is being read, and
    that ends in traces. What comes back has to be called once Spark has set it, and tells whether there was a ctrl-C.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    def take() -> bool:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, end)
        return bool(came)

    logging.getLogger().addFilter(_is_no_interrupt)
    # The line that is left out has given the root a handler by then, and Py4J goes on about the connection it closes.
    logging.getLogger("py4j").propagate = False
    take()
    return take


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.msg != _INTERRUPTED


def stop(session: "SparkSession") -> None:
    """Without a word of what ends with it."""
    end_workers(session)
    session.stop()
