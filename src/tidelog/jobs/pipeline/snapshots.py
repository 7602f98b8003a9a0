"""A table that is made whole anew by every batch (mode `complete`): a directory for each batch, and a file that names
the newest whole one. A batch that runs again writes another directory: what is named, or was before, is never changed.
"""

import secrets
from typing import TYPE_CHECKING, Any, Final

from tidelog.jobs import hadoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURRENT: Final = "_current"
_BATCH: Final = "batch-"


def write(frame: "DataFrame", batch_id: int, path: str, file_format: str, options: dict[str, str]) -> None:
    """The directory first, the name of it when it is whole. The one before it stays, for those who read it now."""
    spark = frame.sparkSession
    before = _named(spark, path)
    # Of each attempt its own: one that was killed may have left a part, and readers may be in any other.
    name = f"{_BATCH}{batch_id:010d}-{secrets.token_hex(4)}"
    frame.write.format(file_format).options(**options).mode("errorifexists").save(f"{path}/{name}")
    files, made = hadoop.file_system(spark, path)
    temporary = made(f"{path}/.{CURRENT}.new")
    hadoop.write_text(files, temporary, name, overwrite=True)
    _replace(spark, files, temporary, made(f"{path}/{CURRENT}"))
    # By name and not by number: with a checkpoint made anew batches are counted from 0 again.
    for each in hadoop.names(spark, path):
        if each.startswith(_BATCH) and each not in (name, before):
            files.delete(made(f"{path}/{each}"), True)


def current(spark: "SparkSession", path: str) -> str:
    """The directory to read. FileNotFoundError before the first batch."""
    name = _named(spark, path)
    if name is None:
        raise FileNotFoundError(f"{path} has no {CURRENT}: no batch has been written")
    return f"{path}/{name}"


def _named(spark: "SparkSession", path: str) -> str | None:
    files, made = hadoop.file_system(spark, path)
    if not files.exists(made(f"{path}/{CURRENT}")):
        return None
    return hadoop.read_text(files, made(f"{path}/{CURRENT}"))


def _replace(spark: "SparkSession", files: Any, source: Any, target: Any) -> None:
    """In one step where the file system can, as all but object stores do."""
    jvm: Any = spark.sparkContext._jvm
    context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
        files.getUri(), spark.sparkContext._jsc.hadoopConfiguration()
    )
    gateway: Any = spark.sparkContext._gateway
    overwrite = gateway.new_array(jvm.org.apache.hadoop.fs.Options.Rename, 1)
    overwrite[0] = jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
    context.rename(source, target, overwrite)
