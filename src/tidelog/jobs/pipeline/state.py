"""What others see of a run: a file beside the checkpoint, replaced whole, and a lock that only a living run holds.

The lock ends with the process, however it ends. The JVM of a driver that was killed may outlive it for a moment and
still finish a batch, so that the next run waits for that too.
"""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.jobs.drivers import Jvm, StillThere
from tidelog.jobs.pipeline.model import Pipeline
from tidelog.jobs.pipeline.surroundings import is_address
from tidelog.storage.posix import PosixDisk

STARTING: Final = "starting"
RUNNING: Final = "running"
STOPPING: Final = "stopping"
ENDED: Final = "ended"
FAILED: Final = "failed"
# What a reader makes of a run that says it goes on while nobody holds its lock.
DIED: Final = "died"
_STATE: Final = "pipeline.json"
_LOCK: Final = "pipeline.lock"
_PAUSE: Final = "pipeline.pause"


@dataclass(slots=True, kw_only=True)
class QueryState:
    """Of one streaming query: its newest batch, and sums since the run began. -1 is a batch that has not been."""

    name: str
    sink: str
    batch_id: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    backlog: dict[str, int] = field(default_factory=dict)
    total_rows: int = 0
    total_batches: int = 0
    dead_letters: int = 0
    # What Spark's stateful operators have dropped behind the watermark.
    late_rows: int = 0


@dataclass(slots=True, kw_only=True)
class RunState:
    name: str
    file: str
    master: str
    pid: int
    state: str = STARTING
    started_ms: int = 0
    updated_ms: int = 0
    jvm_pid: int = 0
    jvm_born: str = ""
    error: str | None = None
    queries: list[QueryState] = field(default_factory=list)


class Busy(RuntimeError):
    """Another run has this checkpoint."""


class NoState(RuntimeError):
    """Nothing has run there."""


class BadState(NoState):
    """Something is there, and nobody can tell what has run."""


def folder_of(pipeline: Pipeline) -> Path:
    """The checkpoint's directory, or one beside the file when the checkpoint is somewhere else than on a disk here."""
    if pipeline.checkpoint.startswith("file:/"):
        return Path("/" + pipeline.checkpoint.removeprefix("file:").lstrip("/"))
    if is_address(pipeline.checkpoint):
        return pipeline.folder / f".{pipeline.name}.pipeline"
    return Path(pipeline.checkpoint)


class StateFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def pause_file(self) -> Path:
        return self.folder / _PAUSE

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Busy if somebody else runs this pipeline, or if the JVM of a killed one does not end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"{self.folder} is in use by {self._owner()}") from None
            self._wait_for_jvm()
            self.pause_file.unlink(missing_ok=True)
            try:
                yield
            finally:
                self.pause_file.unlink(missing_ok=True)

    def _owner(self) -> str:
        try:
            return f"process {self._read()['pid']}"
        except (NoState, KeyError):
            # It has not written yet.
            return "another process"

    def _wait_for_jvm(self) -> None:
        try:
            old = self._read()
        except BadState as error:
            raise Busy(f"{error}; if no machine runs this pipeline any more, remove the file") from error
        except NoState:
            # The first run: there is nobody to wait for.
            return
        if old.get("state") not in (STARTING, RUNNING, STOPPING):
            # It has stopped its queries itself.
            return
        try:
            Jvm(int(old.get("jvm_pid", 0)), str(old.get("jvm_born", ""))).wait_until_gone()
        except StillThere as error:
            raise Busy(str(error)) from error

    def write(self, state: RunState) -> None:
        PosixDisk().write_atomic(str(self.folder / _STATE), json.dumps(asdict(state), indent=1).encode())

    def read(self) -> dict[str, Any]:
        """NoState if nothing has ever run there. `state` is DIED for a run that ended without saying so."""
        found = self._read()
        if found.get("state") in (STARTING, RUNNING, STOPPING) and not self._is_held():
            # It may have ended between the two looks.
            found = self._read()
            if found.get("state") in (STARTING, RUNNING, STOPPING):
                found["state"] = DIED
        return found

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / _STATE).read_text())
        except FileNotFoundError:
            raise NoState(f"no pipeline has run with a checkpoint in {self.folder}") from None
        except ValueError as error:
            raise BadState(f"{self.folder / _STATE} is not a pipeline's state file: {error}") from None
        return found

    def _is_held(self) -> bool:
        try:
            with (self.folder / _LOCK).open("r") as lock:
                # Shared: two who look do not take each other for a run.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False
