"""A reader who does what a page says: a shell in a directory and a network of its own, gone with all it started.

In a network namespace every port is free, so that commands run as they are written, 9092 and all.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_NAMESPACE = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
_DONE = "--- done with status "
# Brings the loopback interface up, then becomes a shell that reads commands.
_INSIDE = """\
import fcntl, os, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
os.execvp("bash", ["bash", "--noprofile", "--norc"])
"""


def why_not() -> str | None:
    """Why no page can be run here, None if they can."""
    if shutil.which("unshare") is None:
        return "there is no unshare(1) for a network of its own"
    tried = subprocess.run([*_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network of its own: {tried.stderr.strip()}"


class Reader:
    """Runs one command after the other."""

    def __init__(self, commands: IO[str], output: IO[str]) -> None:
        self._commands = commands
        self._output = output

    def run(self, command: str) -> tuple[int, str]:
        """Its status, and what it printed to both outputs."""
        # What a command leaves in the background must not hold our pipe: it gets files for its outputs.
        self._commands.write(
            f"{{\n{command}\n}} > .printed 2>&1 < /dev/null; status=$?; cat .printed; echo; echo '{_DONE}'$status\n"
        )
        self._commands.flush()
        lines: list[str] = []
        for line in self._output:
            if line.startswith(_DONE):
                return int(line.removeprefix(_DONE)), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended: {''.join(lines)}")


@contextmanager
def reader(folder: Path, environment: Path | None = None, *, active: bool = True) -> Iterator[Reader]:
    """A shell in `folder`. `environment` becomes its .venv, unless None; `active` puts its programs on the path."""
    if environment is not None:
        (folder / ".venv").symlink_to(environment)
    with subprocess.Popen(
        [*_NAMESPACE, sys.executable, "-c", _INSIDE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=variables(folder, folder / ".venv" / "bin" if active else None),
    ) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        try:
            yield Reader(shell.stdin, shell.stdout)
        finally:
            # When the first process of the namespace ends, the kernel ends all others.
            shell.kill()


def variables(home: Path, programs: Path | None) -> dict[str, str]:
    """The environment variables of a reader without an active environment, or with one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTHON"))}
    del kept["PATH"]
    kept.pop("VIRTUAL_ENV", None)
    ours = str(Path(sys.executable).parent)
    path = [each for each in os.environ["PATH"].split(os.pathsep) if each != ours]
    if programs is not None:
        path.insert(0, str(programs))
    # Spark looks for an address of this machine, and the namespace has only this one.
    return kept | {"PATH": os.pathsep.join(path), "HOME": str(home), "NO_COLOR": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
