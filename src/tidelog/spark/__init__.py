"""Tidelog's topics, and Apache Kafka's, in Spark: ``tidelog.spark.register(spark)``, then ``format("tidelog")``.

`options`, `points`, `offsets`, `ranges`, `history` are pure. `brokers` queries the cluster, `planning` decides on the
driver, `reading` is a task, and Spark calls `source`. `registration`, `interpreter` and `shipping` let Spark's Python
workers run all this.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.spark.registration import register_source
from tidelog.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "1048576",
}
"""For the builder of a session, because Spark reads them only once: rows go from Python to the JVM over a Unix socket
and in larger pieces. That saves a tenth of the time that records of 1 KB take (docs/benchmarks.md).
"""


def register(spark: "SparkSession", *, push_filters: bool = False) -> None:
    """Makes ``format("tidelog")`` known to a session.

    On a local master, Spark's Python workers run this program's Python from now on, also if its environment is not
    activated. On other masters the executors get what they need (`ship`); a Python that does not fit is reported in one
    line. With `push_filters` Spark hands the source the filters of frames with the option ``pushFilters``; read what
    that option requires first.
    """
    try:
        from tidelog.spark.source import TidelogDataSource
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "pyarrow", "numba", "numpy"):
            raise
        raise ImportError(f"{error.name} is missing: pip install 'tidelog[spark]'") from error
    register_source(spark, TidelogDataSource)
    if push_filters:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


__all__ = ["SETTINGS", "register", "ship"]
