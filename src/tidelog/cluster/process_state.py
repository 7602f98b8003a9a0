"""What a child process inherits when it starts and cannot take over later.

A forked nursery gets the environment and the working directory of the moment by message. Everything in `inherited` is
fixed when its template starts; if one of these differs, the template no longer fits and a new one is started.
"""

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidelog.cluster.errors import ClusterError

# Variables that the loader, the C library or Python read only once, when a process starts. Coverage's hook too.
_READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "OPENSSL_", "COV")
_STATUS: Final = frozenset(
    {
        b"Umask", b"Uid", b"Gid", b"Groups", b"NoNewPrivs", b"Seccomp", b"SigIgn", b"Cpus_allowed", b"Mems_allowed",
        b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb",
    }
)  # fmt: skip
_LIMITS: Final = tuple(sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")))
# Files of a process that describe what its children get from it. Which of them exist depends on the kernel.
_FILES: Final = ("cgroup", "oom_score_adj")
_LINKS: Final = ("ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/user", "ns/uts", "root")


def inherited() -> tuple[object, ...]:
    """Comparable: equal for as long as a process started now would start like one that was started before (Linux)."""
    try:
        status = [line.partition(b":") for line in Path("/proc/self/status").read_bytes().splitlines()]
    except OSError as error:
        raise ClusterError(f"cannot read /proc/self/status, which every start of a cluster needs: {error}") from error
    return (
        sys.executable,
        package_root(),
        tuple(sorted(item for item in os.environ.items() if item[0].startswith(_READ_AT_START))),
        tuple((name, value) for name, _, value in status if name in _STATUS),
        tuple(resource.getrlimit(limit) for limit in _LIMITS),
        os.getpriority(os.PRIO_PROCESS, 0),
        tuple(_if_exists(Path.read_bytes, name) for name in _FILES),
        tuple(_if_exists(Path.readlink, name) for name in _LINKS),
    )


def _if_exists(read: Callable[[Path], object], name: str) -> object:
    try:
        return read(Path("/proc/self", name))
    except FileNotFoundError:
        return None


def package_root() -> str:
    """The directory that this process imports `tidelog` from."""
    return str(Path(__file__).parents[2])


def environment() -> bytes:
    """All variables as `NAME=VALUE`, each ended by a zero byte."""
    return b"".join(name + b"=" + value + b"\0" for name, value in os.environb.copy().items())
