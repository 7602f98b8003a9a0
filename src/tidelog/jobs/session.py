"""A Spark session for a job: `local[*]` unless a master is named, with `format("tidelog")` registered."""

import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.jobs.failures import is_sparks, one_line
from tidelog.jobs.java import why_no_java
from tidelog.jobs.jvm_output import JvmOutput
from tidelog.jobs.workers import end_workers

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_LOGGING: Final = Path(__file__).parent / "log4j2.properties"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # How often an idle query asks the brokers for new records. Spark's default of 10 ms suits sources that answer at
    # no cost.
    "spark.sql.streaming.pollingDelay": "100ms",
}
# A driver with its executors in one process needs no host name that others can resolve.
_LOCAL_DEFAULTS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
# Masters that Spark accepts. For anything else its launcher prints a stack trace.
_MASTERS: Final = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|spark://.+|k8s://.+|yarn"
)
# Loggers that repeat errors, which are raised as well, as JSON with a stack trace.
_ECHOES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# Py4J logs it with a stack trace, and raises it as well.
_INTERRUPTED: Final = "KeyboardInterrupt while sending command."
# PySpark's error for a JVM that ended before it was ready: the reason is in the JVM's output.
_EXITED: Final = "JAVA_GATEWAY_EXITED"


class NoSpark(RuntimeError):
    """Spark cannot start. One line that says what is missing and how to get it."""


def why_no_spark() -> str | None:
    """What is missing and how to get it; None if Spark can start."""
    no_java = why_no_java()
    if no_java is not None:
        return no_java
    missing = [name for name in ("pyspark", "pyarrow", "numba", "numpy") if find_spec(name) is None]
    return f"{missing[0]} is missing: pip install 'tidelog[spark]'" if missing else None


def kafka_options(bootstrap: str, security: Mapping[str, str] | None = None) -> dict[str, str]:
    """How a source or sink connects, from a client's properties."""
    return {"kafka.bootstrap.servers": bootstrap} | {f"kafka.{key}": value for key, value in (security or {}).items()}


def start(
    name: str,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    output: JvmOutput | None = None,
) -> "SparkSession":
    """NoSpark without Java, without PySpark, or if the master does not answer.

    With `output` a new JVM prints there, and not to this process's standard output and error.
    """
    reason = why_no_spark()
    if reason is not None:
        raise NoSpark(reason)
    chosen = master or (settings or {}).get("spark.master") or LOCAL
    if _MASTERS.fullmatch(chosen) is None:
        raise NoSpark(f"{chosen} is no Spark master: use local[*], local[N], spark://HOST:PORT, k8s://URL or yarn")
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
        # Otherwise Spark starts the first python3 of the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    java_options = conf.get(_JAVA_OPTIONS, "")
    if "log4j" not in java_options and "SPARK_CONF_DIR" not in os.environ:
        conf[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile=file:{_LOGGING} {java_options}".rstrip()
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, value in conf.items():
        builder = builder.config(key, value)
    take_interrupts = _interrupts()
    try:
        if output is not None and SparkContext._gateway is None:
            _launch(SparkConf().setAppName(name).setMaster(chosen).setAll(list(conf.items())), output)
        # The context replaces the signal handler; the session takes some time after that.
        SparkContext.getOrCreate(SparkConf().setAppName(name).setMaster(chosen).setAll(list(conf.items())))
        take_interrupts()
        session = builder.getOrCreate()
    except Exception as error:
        if not is_sparks(error):
            raise
        why = output.reason() if output is not None and _EXITED in str(error) else ""
        raise NoSpark(f"Spark does not start on {chosen}: {why or one_line(error)}") from error
    if take_interrupts():
        # It was raised where Python drops exceptions, for example in a finalizer.
        stop(session)
        raise KeyboardInterrupt
    tidelog.spark.register(session)
    return session


def _launch(conf: "SparkConf", output: JvmOutput) -> None:
    """Starts the JVM that the next context uses."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    warnings.filterwarnings("ignore", module=r"(pyspark|py4j)\b")
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stdout": output.writing, "stderr": output.writing}
        )
    finally:
        output.launched()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _interrupts() -> Callable[[], bool]:
    """Ctrl-C raises KeyboardInterrupt. Spark's own handler calls the JVM while an answer is being read, which ends in
    stack traces. Call the result once Spark has set its handler: it reports whether ctrl-C was pressed meanwhile.
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
    # The suppressed line has given the root logger a handler, and Py4J also logs the connection that it closes.
    logging.getLogger("py4j").propagate = False
    take()
    return take


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.msg != _INTERRUPTED


def stop(session: "SparkSession") -> None:
    """Ends Spark without output from the processes that end with it."""
    end_workers(session)
    session.stop()
