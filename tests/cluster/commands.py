"""Running `tidelog` as a user does: its output, its status."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tidelog.cli.app import run as run_command

TIMEOUT_S = 60
# The program of this environment, as its own messages name it.
COMMAND = f"{shlex.quote(sys.executable)} -m tidelog"


class Commands:
    """The command line, pointed at one cluster. In this process where it can be, for the sake of speed."""

    def __init__(self, bootstrap: str) -> None:
        self._environment = {"TIDELOG_BOOTSTRAP": bootstrap}

    def run(self, *arguments: str, stdin: str = "", status: int = 0) -> str:
        """What the command printed; fails the test when it ends with another status than expected."""
        out, err = self.run_both(*arguments, stdin=stdin, status=status)
        return err if status else out

    def run_both(self, *arguments: str, stdin: str = "", status: int = 0) -> tuple[str, str]:
        """What the command printed on stdout and on stderr."""
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            patch.dict(os.environ, self._environment),
            _standard_input(stdin),
        ):
            with redirect_stdout(out), redirect_stderr(err):
                ended = run_command(list(arguments))
                out.flush()
            printed = _content(out), _content(err)
        self._judge(arguments, ended, status, *printed)
        return printed

    def run_process(self, *arguments: str, stdin: str = "", status: int = 0, timeout_s: float = TIMEOUT_S) -> str:
        """As a process of its own, for commands that become another program or fork, and beside an event loop."""
        ended = subprocess.run(
            [sys.executable, "-m", "tidelog", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, **self._environment},
            check=False,
        )
        return self._judge(arguments, ended.returncode, status, ended.stdout, ended.stderr)

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.run(*arguments, "--json", stdin=stdin))

    @staticmethod
    def _judge(arguments: tuple[str, ...], ended: int, status: int, out: str, err: str) -> str:
        assert ended == status, f"{arguments}: status {ended}\n{out}\n{err}"
        if status:
            assert err.startswith("tidelog: ") and err.count("\n") == 1, f"{arguments}: not one line: {err}"
            return err
        return out


def _content(file: Any) -> str:
    file.seek(0)
    return str(file.read())


@contextmanager
def _standard_input(text: str) -> Iterator[None]:
    """Commands read file descriptor 0 itself."""
    kept = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)


@contextmanager
def foreground_up(
    data: Path, *arguments: str, ui_port: int = 0
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """`tidelog up` in the foreground and what its ready line says; killed at the end if it still runs."""
    command = [sys.executable, "-m", "tidelog", "up", "--data", str(data), "--ui-port", str(ui_port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line.startswith("ready "), process.stderr.read()
            yield process, dict(field.split("=", 1) for field in line.split()[1:])
        finally:
            process.kill()
