"""`export`: a topic as Parquet, on Spark."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.jobs import Master, on_spark
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandConfig, Json, Quiet, Topic, example
from tidelog.cli.output import CommandFailed, bad_usage, counted, print_json
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
    topic: Topic,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory for the files; every executor must see it.")
    ],
    latest: Annotated[
        bool,
        typer.Option(
            "--latest", help="Keep only the latest value of each key, in DIR/current. A tombstone removes its key."
        ),
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Write keys and values as text. [default: bytes]")] = False,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Continue if records were deleted before they were exported.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    master: Master = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the new records of a topic to Parquet files, partitioned by the day of their timestamps.

    DIR remembers the exported offsets and their leader epochs. A further run writes only newer records. Each record is
    written once, also after a run that was killed.
    """
    if _ADDRESS.match(str(directory)):
        raise bad_usage(f"DIR: {directory} is a URL; give a directory that is mounted on every executor")
    security = security_properties(command_config)
    # Before Spark has started: that takes seconds.
    with_client(bootstrap, lambda client: client.topic(topic), command_config)
    created = _make(directory)

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
            raise CommandFailed(
                f"{error}. With --allow-data-loss the export continues with the remaining records"
            ) from error

    try:
        done = on_spark("tidelog export", master, work, f"exporting {topic}")
    except BaseException:
        # Also after ctrl-C. A run that has written something leaves it to the next one.
        _remove_empty(created)
        raise
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
    swept = f", {counted(done.swept, 'file')} of a killed run removed" if done.swept else ""
    new = counted(done.records, "new record")
    if latest:
        keys = counted(done.rows or 0, "key")
        print(f"{new}, {keys} in {directory / 'current'}{swept}")
    else:
        print(f"{new} in {directory}{swept}")


def _make(directory: Path) -> list[Path]:
    """Creates the directory, and returns it and its parents as far as they are new, the deepest first."""
    created = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(created)
        raise CommandFailed(f"{directory}: {error.strerror or error}") from error
    return created


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        if folder.is_dir():
            if any(folder.iterdir()):
                return
            folder.rmdir()
