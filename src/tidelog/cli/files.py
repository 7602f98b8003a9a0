"""Files that a command writes at its end."""

from pathlib import Path

from tidelog.cli.output import CommandFailed


def check_writable(path: Path | None) -> None:
    """CommandFailed if `path` cannot be written. Asked before the work, which may take long; leaves no file behind."""
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise CommandFailed(unwritable(path, error)) from error


def unwritable(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {error.strerror or error}"
