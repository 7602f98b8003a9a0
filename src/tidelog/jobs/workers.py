"""Spark's Python workers are ended before Spark is.

When it stops it closes the connections of idle workers first and ends their daemons then. A worker that gets to run in
between takes the end of its input for a failure, cannot tell that to anybody, and its daemon prints a traceback about
that (BrokenPipeError): below the last line of a run that has succeeded.
"""

from typing import TYPE_CHECKING, Any, Final

from tidelog.jobs.failures import is_sparks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAEMON: Final = " -m pyspark.daemon "
_PATIENCE_S: Final = 5


def end_workers(spark: "SparkSession") -> None:
    """Of the driver's own JVM, with nothing running any more. Daemons take their workers along."""
    jvm: Any = spark.sparkContext._jvm
    try:
        ended = []
        for each in jvm.java.lang.ProcessHandle.current().children().toList():
            if _DAEMON in each.info().commandLine().orElse("") + " ":
                each.destroy()
                ended.append(each)
        for each in ended:
            each.onExit().get(_PATIENCE_S, jvm.java.util.concurrent.TimeUnit.SECONDS)
    except Exception as error:
        # Of a JVM that is gone no worker is left; for one that cannot end its daemons, stopping it does.
        if not is_sparks(error) and not isinstance(error, OSError):
            raise
