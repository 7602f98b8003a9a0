"""Files through Hadoop, since those of a pipeline need not be on this machine."""

import secrets
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


def write_text(files: Any, path: Any, text: str, *, overwrite: bool) -> None:
    stream = files.create(path, overwrite)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def read_text(files: Any, path: Any) -> str:
    stream = files.open(path)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def claim(spark: "SparkSession", path: str, owner: str) -> str:
    """What the file `path` says: `owner`, if there was none before. Whole or not at all, as it gets its name last.

    Of two that come at the very same moment to a local disk both may believe to have it, until they look again: there a
    rename takes the place of what is there.
    """
    files, made = file_system(spark, path)
    if not files.exists(made(path)):
        mine = made(f"{path}.{secrets.token_hex(8)}")
        write_text(files, mine, owner, overwrite=False)
        if not files.rename(mine, made(path)):
            # Somebody was faster.
            files.delete(mine, False)
    return read_text(files, made(path))
