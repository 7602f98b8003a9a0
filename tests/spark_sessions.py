"""One Spark session for many stories: `local[2]`, and its JVM has ended when the stories have."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidelog.spark import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # As jobs have it.
    **SETTINGS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Stories are short: time spent on compiling well what runs twice is lost.
    # Derby, a database that one of them writes into, keeps no log in whatever directory this is.
    "spark.driver.extraJavaOptions": (
        # A JVM that compiles only once reserves 48 MB for that, which all stories together fill.
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
        "-XX:+UseSerialGC -Xshare:auto -Dderby.stream.error.file=/dev/null"
    ),
    "spark.sql.codegen.wholeStage": "false",
}


@contextmanager
def spark_session(name: str, *, log_level: str = "ERROR", **settings: str) -> "Iterator[SparkSession]":
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import tidelog.spark

    # Without it Spark starts whichever python3 comes first in the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in (_SETTINGS | settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    tidelog.spark.register(session)
    gateway: Any = SparkContext._gateway
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()
        # It ends with its input; nobody else waits for it.
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
