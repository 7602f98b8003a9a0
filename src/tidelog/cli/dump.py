"""`dump`: a file of a log directory as text."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.options import Json, example
from tidelog.cli.output import FAILED, CommandFailed, bad_usage


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog dump tidelog-data/node-1/data/orders-0/00000000000000000000.log --records",
            "tidelog dump tidelog-data/node-1/data/replication-offset-checkpoint",
        )
    )(dump)


def dump(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of a log directory.")],
    records: Annotated[bool, typer.Option("--records", help="Also print the records of each batch.")] = False,
    as_json: Json = False,
) -> None:
    """Print a segment, index, snapshot, checkpoint or the metadata log as text.

    It only reads, and works on files of Apache Kafka as well. With several files, one that cannot be printed is
    reported on stderr, and the others follow. The status is 1 if a file is damaged or was not printed.
    """
    if len(files) == 1:
        _dump(files[0], records=records, as_json=as_json)
        return
    failed = False
    for file in files:
        try:
            _dump(file, records=records, as_json=as_json, heading=True)
        except CommandFailed as error:
            failed = True
            # In order with the lines before it, if both go to one file.
            sys.stdout.flush()
            print(f"tidelog: {error.message}", file=sys.stderr)
    if failed:
        raise typer.Exit(FAILED)


def _dump(file: Path, *, records: bool, as_json: bool, heading: bool = False) -> None:
    """Prints one file. CommandFailed if it is damaged or cannot be read."""
    from tidelog.cli.dump_files import reader_for
    from tidelog.cli.dump_words import Damaged
    from tidelog.storage.checkpoints import StorageFormatError
    from tidelog.storage.ports import DiskError

    if not file.is_file():
        raise CommandFailed(f"{file} is not a file" if file.exists() else f"{file} does not exist")
    reader = reader_for(file, records=records)
    if reader is None:
        raise bad_usage(f"{file} is not a file of a log directory")
    if heading:
        print(json.dumps({"path": str(file)}) if as_json else f"==> {file} <==")
    damaged = False
    try:
        for line in reader:
            print(json.dumps(line.data) if as_json else line.text)
            damaged |= line.damaged
    except (Damaged, StorageFormatError) as error:
        # Some name their file themselves.
        words = str(error)
        raise CommandFailed(words if words.startswith(str(file)) else f"{file}: {words}") from error
    except (DiskError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CommandFailed(f"cannot read {file}: {error}") from error
    if damaged:
        raise CommandFailed(f"{file} is damaged")
