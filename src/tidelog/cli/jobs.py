"""What commands that run on Spark have in common."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidelog.cli.output import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.page import Page

T = TypeVar("T")

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="A Spark master. [default: local[*], in this process]")
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report for a browser, too.")]


def on_spark(name: str, master: str | None, work: "Callable[[SparkSession], T]") -> T:
    """Opens Spark, does the work, and turns what goes wrong into one line."""
    from tidelog.client.client import one_line
    from tidelog.client.errors import ClientError
    from tidelog.jobs.session import NoSpark, start
    from tidelog.wire.errors import ApiError

    try:
        # Spark's own line of how many tasks are done.
        spark = start(name, master, {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()})
        try:
            return work(spark)
        finally:
            spark.stop()
    except NoSpark as error:
        raise CommandFailed(str(error)) from error
    except (ApiError, ClientError) as error:
        raise CommandFailed(one_line(error)) from error
    except CommandFailed:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise CommandFailed(reason(str(error))) from error


def reason(text: str) -> str:
    """What a task, or Spark, says at the heart of pages of traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "^")) and "Error" in line]
    return (raised or lines or ["Spark failed and does not say why"])[-1 if raised else 0]


def write_page(path: Path, page: "Page") -> None:
    try:
        path.write_text(page.html(), "utf-8")
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror or error}") from error
