"""Tidelog's topics, and Apache Kafka's, in Spark: ``tidelog.spark.register(spark)``, then ``format("tidelog")``.

`options`, `points`, `offsets`, `ranges` and `history` are pure; `brokers` asks, `planning` decides on the driver,
`reading` is what a task does, `source` what Spark calls. `shipping` brings all this to executors that have none of it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.spark.shipping import needs_shipping, ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SETTINGS: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "1048576",
}
"""For whoever builds a session, since Spark takes them only then: rows go from Python to the JVM over a Unix socket and
in larger pieces, which is a tenth of what it costs to read records of 1 KB (docs/benchmarks.md).
"""


def register(spark: "SparkSession", *, push_filters: bool = False) -> None:
    """Makes ``format("tidelog")`` known to a session.

    On any master but a local one the executors are sent what they need for it (`ship`). With `push_filters` Spark hands
    down the filters of frames that have the option ``pushFilters`` (S7): read what that option asks of you first.
    """
    try:
        from tidelog.spark.source import TidelogDataSource
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "pyarrow", "numba", "numpy"):
            raise
        raise ImportError(f"{error.name} is missing: pip install tidelog[spark]") from error
    if needs_shipping(spark):
        ship(spark)
    spark.dataSource.register(TidelogDataSource)
    if push_filters:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


__all__ = ["SETTINGS", "register", "ship"]
