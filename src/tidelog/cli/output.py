"""What commands print: tables for people, JSON for programs, one line for a change; and how they fail."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any, Final

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143
# A command that takes longer reports what it waits for.
SLOW_S: Final = 1.0


class CommandFailed(Exception):
    """Ends a command with one line on stderr and a status."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def bad_usage(message: str) -> CommandFailed:
    return CommandFailed(message, USAGE)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(table(headings, rows))


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [["-" if cell is None or cell == "" else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(headings), *cells]) for column in range(len(headings))]
    numeric = [
        bool(rows) and all(isinstance(row[column], int) or row[column] is None for row in rows)
        for column in range(len(headings))
    ]
    lines = []
    for line in [list(headings), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def report_change(words: str, *, quiet: bool, as_json: bool, **facts: Any) -> None:
    """The end of every command that changes something: one line on stdout, or with `--json` the change for programs.

    `quiet` suppresses the line, not the JSON: a program that asks for JSON reads it.
    """
    if as_json:
        print_json(facts)
    elif not quiet:
        print(words)


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for one line, the first few of many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def folded(topics: Sequence[str]) -> str:
    """One line for internal topics that are left out."""
    return f"{counted(len(topics), 'internal topic')} not shown ({listed(topics)}); --internal shows them"


def progress(words: str) -> None:
    """How far long work is: one line on a terminal, in place of the last one. Empty words remove it."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{words}", end="", flush=True)


def note(message: str) -> None:
    """A remark for a person at a terminal; scripts do not see it."""
    if sys.stderr.isatty():
        # A line of progress may be there; it is drawn again below.
        print(f"\r\x1b[K{message}", file=sys.stderr, flush=True)


@contextmanager
def note_if_slow(message: str) -> Iterator[None]:
    """A remark on a terminal during a long wait."""
    timer = Timer(SLOW_S, note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
