"""Whether executors see this machine's directories: of several hosts each has a disk of its own under the same path.

Spark does not ask. It writes on the executors' disks, and takes what the driver finds on its own for the whole.
"""

import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.jobs.failures import is_sparks, one_line
from tidelog.jobs.hadoop import file_system
from tidelog.spark.shipping import needs_shipping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's readers pass over what begins with a dot.
_MARK: Final = ".tidelog-shared-"
_FEWEST_TASKS: Final = 2


class NotShared(RuntimeError):
    """A directory that an executor does not see, or one that nobody can open, in one line that names it."""


def require_shared(spark: "SparkSession", paths: Iterable[str]) -> None:
    """NotShared if one of them is a directory here, made if it is not there, and another one, or none, to an executor
    that has a task of this. What is not on a disk of this machine is opened, and not looked at any further.
    """
    if not needs_shipping(spark):
        return
    with ExitStack() as stack:
        marks = [_marked(directory, stack) for directory in sorted(set(_on_disk(spark, paths)))]
        tasks = max(spark.sparkContext.defaultParallelism, _FEWEST_TASKS)
        rounds = spark.sparkContext.parallelize(range(tasks), tasks)
        unseen = [each for some in rounds.map(partial(_unseen, marks)).collect() for each in some]
    if unseen:
        host, mark = unseen[0]
        raise NotShared(
            f"{Path(mark).parent} is another directory for the executor on {host}: driver and executors "
            "must write to a disk that they share, or to a file system that Spark supports"
        )


def _on_disk(spark: "SparkSession", paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        try:
            files, made = file_system(spark, path)
        except Exception as error:
            if not is_sparks(error):
                raise
            raise NotShared(f"{path} cannot be opened: {one_line(error)}") from error
        if files.getUri().getScheme() == "file":
            yield str(made(path).toUri().getPath())


def _marked(directory: str, stack: ExitStack) -> str:
    """A file in it, until the stack is left."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    return stack.enter_context(tempfile.NamedTemporaryFile(dir=directory, prefix=_MARK)).name


def _unseen(marks: list[str], _: int) -> list[tuple[str, str]]:
    """On an executor."""
    return [(socket.gethostname(), each) for each in marks if not Path(each).exists()]
