"""Files through Hadoop, since those of a pipeline need not be on this machine."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file_system(spark: "SparkSession", path: str) -> tuple[Any, Any]:
    """The one that has `path`, and Hadoop's class of paths."""
    jvm: Any = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path
    return hadoop(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), hadoop


def names(spark: "SparkSession", path: str) -> list[str]:
    """Of what is in a directory; none if there is no such directory."""
    files, made = file_system(spark, path)
    if not files.exists(made(path)):
        return []
    return [str(each.getPath().getName()) for each in files.listStatus(made(path))]
