"""One node as an operating-system process."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.platform import ON_LINUX

if TYPE_CHECKING:
    from tidelog.cluster.nursery import Nursery

CHILD: Final = str(Path(__file__).with_name("child.py"))
MAX_CONSOLE_BYTES: Final = 1024 * 1024
_TAIL_BYTES: Final = 8 * 1024


class Handle(Protocol):
    """A process that somebody reaps."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def send_signal(self, number: int, /) -> None: ...
    async def wait(self) -> int: ...


class NodeProcess:
    """A started process; its standard output and error go to a file that the next start moves aside."""

    def __init__(self, process: Handle, console: Path, lifeline: int | None = None) -> None:
        self._process = process
        self._console = console
        self._lifeline = lifeline

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        console: Path,
        *,
        dies_with_us: bool,
        inherit: Mapping[str, int] | None = None,
        use_pipe: bool = not ON_LINUX,
    ) -> "NodeProcess":
        """Starts `command` in a session of its own, so that ctrl-C in the terminal reaches the supervisor alone.

        `inherit` names descriptors that it gets, by the options that tell it their numbers.

        The thread that calls this must live as long as the node may: the kernel's parent-death signal follows it.
        """
        _rotate(console)
        inherit = inherit or {}
        command = [*command, *(word for option, fd in inherit.items() for word in (option, str(fd)))]
        lifeline: int | None = None
        pipe: int = -1
        if dies_with_us:
            if use_pipe:
                pipe, lifeline = os.pipe()
            command = [sys.executable, "-I", "-S", CHILD, str(os.getpid()), str(pipe), *command]
        try:
            # Appending, so that `bound_console` may cut the file under the node's feet.
            with console.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(*inherit.values(), *((pipe,) if pipe >= 0 else ())),
                )
        except OSError as error:
            if lifeline is not None:
                os.close(lifeline)
            raise ClusterError(f"cannot start {command[0]}: {error.strerror}") from error
        finally:
            if pipe >= 0:
                os.close(pipe)
        return cls(process, console, lifeline)

    @classmethod
    async def fork(
        cls,
        nursery: "Nursery",
        arguments: Sequence[str],
        console: Path,
        name: str,
        *,
        inherit: Mapping[str, int] | None = None,
    ) -> "NodeProcess":
        """The same without a new interpreter: the nursery has imported the node already."""
        _rotate(console)
        return cls(await nursery.run(arguments, output=console, name=name, inherit=inherit), console)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to a process not yet reaped; one that just ended is no error."""
        if self.alive:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                return  # reaped a moment ago: `wait` tells

    async def wait(self) -> int:
        """The exit status, or minus the signal that ended it."""
        status = await self._process.wait()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        return status

    def bound_console(self) -> None:
        """Moves what the node printed aside once it is much; a node's own log rotates by itself."""
        try:
            if self._console.stat().st_size > MAX_CONSOLE_BYTES:
                shutil.copyfile(self._console, self._console.with_suffix(".log.1"))
                os.truncate(self._console, 0)
        except FileNotFoundError:
            return  # somebody removed the directory of a running node: there is nothing to bound

    def last_words(self) -> str:
        """The end of what the process printed: the reason when it did not come up."""
        return last_lines(self._console)


def _rotate(console: Path) -> None:
    if console.exists():
        console.replace(console.with_suffix(".log.1"))


def last_lines(path: Path, count: int = 5, *, tail_bytes: int = _TAIL_BYTES) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - tail_bytes))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.strip().splitlines()[-count:])


def describe_exit(status: int) -> str:
    """`exit status 1`, or `ended by SIGKILL`."""
    if status < 0:
        try:
            return f"ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"ended by signal {-status}"
    return f"exit status {status}"
