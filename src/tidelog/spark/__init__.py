"""Tidelog's topics, and Apache Kafka's, in Spark: ``tidelog.spark.register(spark)``, then ``format("tidelog")``.

`options`, `points`, `offsets`, `ranges` and `history` are pure; `brokers` asks, `planning` decides on the driver,
`reading` is what a task does, `source` what Spark calls.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Makes ``format("tidelog")`` known to a session, and has Spark hand down filters to it (S7)."""
    try:
        from tidelog.spark.source import TidelogDataSource
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "pyarrow", "numba", "numpy"):
            raise
        raise ImportError(f"{error.name} is missing: pip install tidelog[spark]") from error
    spark.dataSource.register(TidelogDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


__all__ = ["register"]
