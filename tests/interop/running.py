"""Programs that run on while other things happen: what they have printed so far, and their end."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END_SECONDS = 60


class Lines:
    """The whole lines of a growing file, each handed out once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new(self) -> list[str]:
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.decode().splitlines()


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Whatever happens meanwhile, the process does not outlive the block."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def end(process: subprocess.Popen[str]) -> int:
    """Asks it to end and waits until it has; its exit status, which is negative or above 128 for a signal."""
    process.terminate()
    return process.wait(END_SECONDS)
