"""`demo`: three brokers, load, SIGKILL to a leader, no loss; then the topic as a table on Spark, and a report."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.options import Json, example
from tidelog.cli.output import CommandFailed, print_json
from tidelog.cli.session import cluster_errors

REPORT: Final = Path("tidelog-demo.html")


def register(app: typer.Typer) -> None:
    app.command(epilog=example("tidelog demo", "tidelog demo --keep", "tidelog demo --seconds 4 --no-spark"))(demo)


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, max=60, help="Seconds of load.")] = 8.0,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Make a table of the topic with a pipeline on Spark.")
    ] = True,
    report: Annotated[Path, typer.Option("--report", metavar="FILE", help="File for the report with charts.")] = REPORT,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running until ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Start three brokers, write to them, kill a leader under load, and show that no acknowledged record was lost.

    Then a pipeline on Spark makes a table of the topic, and the demo writes a report with charts. With --json the story
    goes to standard error, and its figures go to standard output at the end.
    """
    from rich.console import Console

    from tidelog.cli.demo.story import Plan, tell

    if not report.parent.is_dir():
        raise CommandFailed(f"--report: {report.parent} is not a directory")
    if report.is_dir():
        raise CommandFailed(f"--report: {report} is a directory, not a file")
    plan = Plan(seconds=seconds, with_spark=spark, report=report, keep=keep)
    console = Console(highlight=False, soft_wrap=True, stderr=as_json)
    outcome = cluster_errors(lambda: tell(plan, console))
    if as_json:
        print_json(asdict(outcome))
