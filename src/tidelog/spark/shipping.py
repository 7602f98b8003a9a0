"""What a job sends along so that executors need nothing of ours installed: their Python has PySpark and PyArrow, as
Spark asks of it, and the rest comes in two archives, this package and what it is built on.

Archives are unpacked into real directories on every executor, which compiled extensions need and where Numba keeps its
code. They are tars: those keep the times of files, by which Numba tells that the compiled code in them still fits.
"""

import gzip
import hashlib
import importlib.metadata
import os
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tidelog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What `kernel`, `client` and `wire` import. PySpark and PyArrow are where Spark runs Python at all.
LIBRARIES: Final = ("cramjam", "crc32c", "llvmlite", "numba", "numpy")
_PACKAGE_DIR: Final = "tidelog_package"
_LIBRARIES_DIR: Final = "tidelog_libraries"
_COMPILED: Final = (".nbi", ".nbc")
_FAST: Final = 1
_STREAMS: Final = "streaming_job"


def needs_shipping(spark: "SparkSession") -> bool:
    """Whether executors run elsewhere. A session of Spark Connect has no context that could send them anything."""
    return not is_connect(spark) and not is_local(spark.sparkContext.master)


def is_connect(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(master: str | None) -> bool:
    """Whether the executors are threads of the driver's JVM."""
    return master == "local" or (master or "").startswith("local[")


def ship(spark: "SparkSession") -> None:
    """Sends the archives to every executor of a session, now and later. Twice is once."""
    context = spark.sparkContext
    # What Spark puts on the path of its Python workers has no public door for directories of an archive.
    included = context._python_includes
    assert included is not None
    for directory, archive in ((_LIBRARIES_DIR, libraries_archive), (_PACKAGE_DIR, package_archive)):
        if directory not in included:
            context.addArchive(f"{archive()}#{directory}")
            included.append(directory)
            _show_to_streams(directory)


def _show_to_streams(directory: str) -> None:
    """On the driver, Spark has Python for streams look for files in a directory that it puts nothing into."""
    from pyspark import SparkFiles

    place = Path(SparkFiles.getRootDirectory()) / _STREAMS
    place.mkdir(exist_ok=True)
    (place / directory).symlink_to(Path("..") / directory)


def libraries_archive(folder: Path | None = None) -> Path:
    """Made once for these versions."""
    versions = [f"{name}-{importlib.metadata.version(name)}" for name in LIBRARIES]
    return _made("libraries", [sys.version, sysconfig.get_platform(), *versions], _library_files, folder)


def package_archive(folder: Path | None = None) -> Path:
    """This package as it is on disk now, with what Numba has compiled of it."""
    marks = [f"{name} {path.stat().st_mtime_ns} {path.stat().st_size}" for path, name in _package_files()]
    return _made("package", marks, _package_files, folder)


def _package_files() -> Iterator[tuple[Path, str]]:
    root = Path(tidelog.__file__).parent
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and ("__pycache__" not in inside.parts or path.suffix in _COMPILED):
            yield path, f"tidelog/{inside}"


def _library_files() -> Iterator[tuple[Path, str]]:
    for name in LIBRARIES:
        files = importlib.metadata.files(name)
        if files is None:
            raise ImportError(f"{name} was not installed by pip: its files are not known, and cannot be sent along")
        for each in files:
            # Commands stand outside of where modules are. What Python has compiled goes along: it takes seconds.
            if ".." not in each.parts and "tests" not in each.parts and (path := Path(each.locate())).is_file():
                yield path, str(each)


def _made(kind: str, marks: list[str], files: Callable[[], Iterable[tuple[Path, str]]], folder: Path | None) -> Path:
    """Kept by what is in it, so that the next job need not make it again."""
    where = folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]
    archive = where / f"{kind}-{digest}.tar.gz"
    if archive.exists():
        return archive
    where.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=where, prefix=f".{kind}-", suffix=".tar.gz")
    try:
        with (
            os.fdopen(descriptor, "wb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_FAST) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for path, name in files():
                tar.add(path, name, recursive=False)
        Path(temporary).replace(archive)
    except BaseException:
        Path(temporary).unlink()
        raise
    return archive
