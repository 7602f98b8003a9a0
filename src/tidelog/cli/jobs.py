"""What commands that run on Spark have in common."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidelog.cli.files import unwritable
from tidelog.cli.output import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.page import Page

T = TypeVar("T")

Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="URL of a Spark master. [default: local[*], in this process]"),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write the report to this HTML file.")]


def on_spark(name: str, master: str | None, work: "Callable[[SparkSession], T]") -> T:
    """Opens Spark, does the work, and turns what goes wrong into one line."""
    from tidelog.client.client import one_line
    from tidelog.client.errors import ClientError
    from tidelog.jobs import failures
    from tidelog.jobs.session import NoSpark, start, stop
    from tidelog.wire.errors import ApiError

    try:
        # Spark's own line of how many tasks are done.
        spark = start(name, master, {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()})
        try:
            return work(spark)
        finally:
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


def write_page(path: Path, page: "Page") -> str:
    """Why it could not be written; empty if it is. The result is on the terminal by then, and is not taken back."""
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
