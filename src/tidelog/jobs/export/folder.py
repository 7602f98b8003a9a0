"""What an export keeps in its directory, and what a run that was killed has left there. Names with an underscore are
passed over by whoever reads the directory as Parquet.

_tidelog.json     whose directory this is: the topic, and what is made of it
_tidelog.lock     held while an export runs
_tidelog.jvm      the JVM of the last one
_checkpoint/      how far the topic was read, with leader epochs: Spark's checkpoint of the query
_spark_metadata/  by day: the files that count (Spark's commit log)
_manifest.json    latest: the table that counts
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tidelog.jobs.batch_logs import COMPACTED, NO_BATCH, newest_batch
from tidelog.jobs.drivers import Jvm, StillThere
from tidelog.storage.posix import PosixDisk

IDENTITY: Final = "_tidelog.json"
LOCK: Final = "_tidelog.lock"
JVM: Final = "_tidelog.jvm"
CHECKPOINT: Final = "_checkpoint"
COMMIT_LOG: Final = "_spark_metadata"
MANIFEST: Final = "_manifest.json"
_TABLE: Final = "table-"


class Mode(StrEnum):
    """What is made of a topic."""

    DAYS = "days"
    LATEST = "latest"


class BadFolder(Exception):
    """The directory is not what this export may write to; one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What the first export into a directory decides for all."""

    topic: str
    mode: str
    text: bool


class ExportFolder:
    """Of one export."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @contextmanager
    def held(self, identity: Identity, jvm: Jvm) -> Iterator[None]:
        """While nobody else exports into it, and nothing of a run that was killed does. Made if it is not there."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadFolder(f"another export into {self.path} is running") from None
            self._claim(identity)
            self._wait_for_last(jvm)
            self._check_checkpoint()
            _write(self.path / JVM, asdict(jvm))
            yield
            # Not after a failure: something of it may go on in the JVM.
            (self.path / JVM).unlink()

    def _claim(self, identity: Identity) -> None:
        path = self.path / IDENTITY
        if not path.exists():
            strange = [each.name for each in self.path.iterdir() if each.name != LOCK]
            if strange:
                raise BadFolder(f"{self.path} is not empty and not from an export: it contains {sorted(strange)[0]}")
            _write(path, asdict(identity))
            return
        known = _read(path)
        if known != asdict(identity):
            said = ", ".join(f"{name} {value!r}" for name, value in known.items())
            raise BadFolder(f"{self.path} holds an export of another kind: {said}")

    def _wait_for_last(self, own: Jvm) -> None:
        path = self.path / JVM
        if not path.exists():
            return
        told = _read(path)
        last = Jvm(int(told.get("pid", 0)), str(told.get("born", "")))
        if last == own:
            # An earlier export of this session, which has stopped its query.
            return
        try:
            last.wait_until_gone()
        except StillThere as error:
            raise BadFolder(f"{self.path}: {error}") from error

    def _check_checkpoint(self) -> None:
        """It has planned every batch that was written. Of a query that begins anew those would be taken for done."""
        manifest = self.manifest()
        written = max(_newest(self.path / COMMIT_LOG), NO_BATCH if manifest is None else manifest["batch"])
        if written > _newest(self.checkpoint / "offsets"):
            raise BadFolder(
                f"{self.checkpoint} is not the checkpoint of {self.path}, which has batches up to {written}: the "
                "position in the topic is unknown; export into another directory"
            )

    # --- by day ---

    def sweep(self) -> int:
        """Removes the files of runs that did not come to their end; how many. Readers of the commit log never saw them,
        others did.
        """
        counted = self.committed()
        if not counted and any((self.checkpoint / "commits").glob("[0-9]*")):
            raise BadFolder(f"{self.path / COMMIT_LOG} is missing: it lists the files that belong to the export")
        removed = 0
        for file in self.path.glob("*=*/*.parquet"):
            if _within(str(file)) not in counted:
                file.unlink()
                removed += 1
        return removed

    def committed(self) -> set[str]:
        """The files that count, as `day=…/name`."""
        return committed_files(self.path / COMMIT_LOG)

    def require(self, files: set[str]) -> None:
        """BadFolder unless they are here: executors with a disk of their own under this name would write there."""
        missing = sorted(file for file in files if not (self.path / file).exists())
        if missing:
            raise BadFolder(
                f"{len(missing)} of {len(files)} files were written but are not in {self.path}, for example "
                f"{missing[0]}: executors must see the same directory"
            )

    # --- latest ---

    def manifest(self) -> dict[str, Any] | None:
        path = self.path / MANIFEST
        return _read(path) if path.exists() else None

    def current(self) -> Path | None:
        """The table that counts."""
        manifest = self.manifest()
        return None if manifest is None else self.path / manifest["table"]

    def next_table(self, batch: int) -> Path:
        """Where a micro-batch writes its table; what an earlier try has left there goes."""
        path = self.path / f"{_TABLE}{batch:06d}"
        if path.exists():
            shutil.rmtree(path)
        return path

    def publish(self, table: Path, batch: int, rows: int) -> None:
        """From here on `table` counts. The one before it stays, for those who read it now."""
        before = self.manifest()
        kept = {table.name} | ({before["table"]} if before is not None else set())
        _write(self.path / MANIFEST, {"table": table.name, "batch": batch, "rows": rows})
        self.link()
        for each in self.path.glob(f"{_TABLE}*"):
            if each.name not in kept:
                shutil.rmtree(each)

    def link(self) -> None:
        """Has `current` lead to the table that counts: a run that was killed may have come to the manifest only."""
        manifest = self.manifest()
        assert manifest is not None
        link, temporary = self.path / "current", self.path / ".current"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(manifest["table"])
        temporary.replace(link)


def committed_files(log: Path) -> set[str]:
    """The files that Spark's commit log names, as `day=…/name`: it has them with the whole path at which they were
    written, and a directory may be moved.
    """
    if not log.is_dir():
        return set()
    entries = {path.name: path for path in log.iterdir() if path.name.removesuffix(COMPACTED).isdecimal()}
    compacted = [int(name.removesuffix(COMPACTED)) for name in entries if name.endswith(COMPACTED)]
    newest = max(compacted, default=-1)
    counted: set[str] = set()
    for name, path in entries.items():
        number = int(name.removesuffix(COMPACTED))
        if number < newest or (number == newest and not name.endswith(COMPACTED)):
            continue
        # The first line is the version.
        for line in path.read_text("utf-8").splitlines()[1:]:
            told = json.loads(line)
            if told.get("action", "add") == "add":
                counted.add(_within(unquote(urlsplit(told["path"]).path)))
    return counted


def _newest(log: Path) -> int:
    return newest_batch(each.name for each in log.iterdir()) if log.is_dir() else NO_BATCH


def _within(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[1:])


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise BadFolder(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise BadFolder(f"{path} is not a file of an export")
    return found


def _write(path: Path, content: dict[str, Any]) -> None:
    PosixDisk().write_atomic(str(path), json.dumps(content, indent=2).encode())
