"""What commands that run on Spark have in common."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidelog.cli.files import unwritable
from tidelog.cli.output import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.jvm_output import JvmOutput
    from tidelog.jobs.page import Page

T = TypeVar("T")

Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="URL of a Spark master. [default: local[*], in this process]"),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write the report to this HTML file.")]


def on_spark(name: str, master: str | None, work: "Callable[[SparkSession], T]", doing: str) -> T:
    """Opens Spark, does the work with its progress on standard error, and turns a failure into one line. `doing` is
    what the work does, for the progress: `reading orders`.
    """
    from tidelog.cli.spark_progress import spark_progress
    from tidelog.client.client import one_line
    from tidelog.client.errors import ClientError
    from tidelog.wire.errors import ApiError

    # First: it prints a line while the imports below and Java take their seconds.
    with spark_progress(name) as progress:
        from tidelog.jobs import failures
        from tidelog.jobs.session import NoSpark, start, stop

        try:
            with spark_output(progress.relay) as output:
                spark = start(name, master, output=output)
                try:
                    progress.ready(spark, doing)
                    return work(spark)
                finally:
                    progress.close()
                    stop(spark)
        except NoSpark as error:
            raise CommandFailed(str(error)) from error
        except (ApiError, ClientError) as error:
            raise CommandFailed(one_line(error)) from error
        except CommandFailed:
            raise
        except Exception as error:
            if not failures.is_sparks(error):
                raise
            raise CommandFailed(failures.one_line(error)) from error


@contextmanager
def spark_output(relay: Callable[[str], None]) -> "Iterator[JvmOutput]":
    """Where the JVM of the block prints. Its log is removed, unless the block fails and the log explains why: then a
    line names it.
    """
    from tidelog.jobs.jvm_output import JvmOutput

    output = JvmOutput()
    output.relay = relay
    failed = True
    try:
        yield output
        failed = False
    finally:
        log = output.kept_log(failed=failed)
        if log is not None:
            relay(f"Spark's log: {log}")


def write_page(path: Path, page: "Page") -> str:
    """Writes it and returns an empty string, or the reason why it cannot be written. The result is printed by then."""
    try:
        path.write_text(page.html(), "utf-8")
    except OSError as error:
        return unwritable(path, error)
    return ""


def fail_with(*words: str) -> None:
    """Ends a command with these errors, unless all are empty."""
    told = "; ".join(each for each in words if each)
    if told:
        raise CommandFailed(told)
