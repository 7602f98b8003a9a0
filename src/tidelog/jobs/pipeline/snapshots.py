"""A table that is made whole anew by every batch (mode `complete`): a directory for each batch, and a file that names
the newest whole one. A batch that runs again writes the same directory again, so that readers see it once.
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURRENT: Final = "_current"
_KEPT: Final = 2


def write(frame: "DataFrame", batch_id: int, path: str, file_format: str, options: dict[str, str]) -> None:
    """The directory first, the name of it when it is whole."""
    spark = frame.sparkSession
    name = f"batch-{batch_id:010d}"
    frame.write.format(file_format).options(**options).mode("overwrite").save(f"{path}/{name}")
    files, made = _file_system(spark, path)
    temporary = made(f"{path}/.{CURRENT}.new")
    stream = files.create(temporary, True)
    try:
        stream.write(bytearray(name.encode()))
    finally:
        stream.close()
    _replace(spark, files, temporary, made(f"{path}/{CURRENT}"))
    old = sorted(
        (each for each in files.listStatus(made(path)) if each.getPath().getName().startswith("batch-")),
        key=lambda each: str(each.getPath().getName()),
    )
    for each in old[:-_KEPT]:
        files.delete(each.getPath(), True)


def current(spark: "SparkSession", path: str) -> str:
    """The directory to read. FileNotFoundError before the first batch."""
    files, made = _file_system(spark, path)
    if not files.exists(made(f"{path}/{CURRENT}")):
        raise FileNotFoundError(f"{path} has no {CURRENT}: no batch has been written")
    stream = files.open(made(f"{path}/{CURRENT}"))
    try:
        name = bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()
    return f"{path}/{name}"


def _file_system(spark: "SparkSession", path: str) -> tuple[Any, Any]:
    """Hadoop's, since the table need not be on this machine."""
    jvm: Any = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path
    return hadoop(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), hadoop


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
