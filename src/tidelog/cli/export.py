"""`export`: a topic as Parquet, on Spark."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.jobs import Master, on_spark
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Quiet, example
from tidelog.cli.output import CommandFailed, bad_usage, print_json
from tidelog.cli.session import security_properties, with_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.jobs.export.job import Exported

# Of two slashes a path has one left.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog export orders exports/orders",
            "tidelog export customers exports/customers --latest --text",
        )
    )(export)


def export(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    directory: Annotated[Path, typer.Argument(metavar="DIR")],
    latest: Annotated[
        bool, typer.Option("--latest", help="The latest value of every key, in DIR/current; tombstones delete.")
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Keys and values as text, not as bytes.")] = False,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Go on if records were lost before they were exported.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write what is new in a topic to Parquet files, by day of the records' timestamps.

    DIR remembers how far the topic was read, with leader epochs: run again, only new records are written, and each of
    them once, however a run ended. DIR must be one that the executors see too.
    """
    if _ADDRESS.match(str(directory)):
        raise bad_usage(f"DIR: {directory} is an address; a directory is wanted, mounted where executors see it too")
    security = security_properties(command_config)
    # Before Spark has started: that takes seconds.
    with_client(bootstrap, lambda client: client.topic(topic), command_config)
    _make(directory)

    def work(spark: "SparkSession") -> "Exported":
        from tidelog.jobs.export.folder import BadFolder, Mode
        from tidelog.jobs.export.job import RecordsLost
        from tidelog.jobs.export.job import export as run
        from tidelog.jobs.sharing import NotShared

        try:
            return run(
                spark,
                bootstrap,
                topic,
                directory,
                mode=Mode.LATEST if latest else Mode.DAYS,
                text=text,
                fail_on_data_loss=not allow_data_loss,
                security=security,
            )
        except (BadFolder, NotShared) as error:
            raise CommandFailed(str(error)) from error
        except RecordsLost as error:
            raise CommandFailed(f"{error}. With --allow-data-loss the export goes on with what there is") from error

    done = on_spark("tidelog export", master, work)
    if as_json:
        print_json(
            {
                "topic": topic,
                "directory": str(directory),
                "records": done.records,
                "rows": done.rows,
                "swept_files": done.swept,
                "offsets": done.offsets,
            }
        )
        return
    if quiet:
        return
    swept = f", {done.swept} files of a run that was killed removed" if done.swept else ""
    new = "1 new record" if done.records == 1 else f"{done.records} new records"
    if latest:
        keys = "1 key" if done.rows == 1 else f"{done.rows or 0} keys"
        print(f"{new}, {keys} in {directory / 'current'}{swept}")
    else:
        print(f"{new} in {directory}{swept}")


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(f"{directory}: {error.strerror or error}") from error
