"""`dump`: a file of a log directory as text."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.options import Json, example
from tidelog.cli.output import CommandFailed, bad_usage


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

    It only reads, and works on files of Apache Kafka as well. The status is 1 if a file is damaged.
    """
    damaged = [str(file) for file in files if _dump(file, records=records, as_json=as_json)]
    if damaged:
        raise CommandFailed(f"{', '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} damaged")


def _dump(file: Path, *, records: bool, as_json: bool) -> bool:
    """Prints one file; whether it is damaged."""
    from tidelog.cli.dump_files import reader_for
    from tidelog.cli.dump_words import Damaged
    from tidelog.storage.checkpoints import StorageFormatError
    from tidelog.storage.ports import DiskError

    if not file.is_file():
        raise CommandFailed(f"{file} is not a file")
    reader = reader_for(file, records=records)
    if reader is None:
        raise bad_usage(f"{file.name} is not a file of a log directory")
    damage = 0
    try:
        for line in reader:
            print(json.dumps(line.data) if as_json else line.text)
            damage += line.damaged
    except (Damaged, StorageFormatError) as error:
        # Some name their file themselves.
        told = str(error)
        raise CommandFailed(told if told.startswith(str(file)) else f"{file}: {told}") from error
    except (DiskError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise CommandFailed(f"cannot read {file}: {error}") from error
    return damage > 0
