"""What a child process inherits when it starts and cannot take over later.

A forked nursery gets the environment and the working directory of the moment by message. Everything in `inherited` is
fixed when its template starts; if one of these differs, the template no longer fits and a new one is started.
"""

import os
import resource
import sys
from pathlib import Path
from typing import Final

# Variables that the loader, the C library or Python read only once, when a process starts. Coverage's hook too.
_READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "OPENSSL_", "COV")
_STATUS: Final = frozenset(
    {
        b"Umask", b"Uid", b"Gid", b"Groups", b"NoNewPrivs", b"Seccomp", b"SigIgn", b"Cpus_allowed", b"Mems_allowed",
        b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb",
    }
)  # fmt: skip
_LIMITS: Final = tuple(sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")))
_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def inherited() -> tuple[object, ...]:
    """Comparable: equal for as long as a process started now would start like one that was started before (Linux)."""
    status = (line.partition(b":") for line in Path("/proc/self/status").read_bytes().splitlines())
    return (
        sys.executable,
        package_root(),
        tuple(sorted(item for item in os.environ.items() if item[0].startswith(_READ_AT_START))),
        tuple((name, value) for name, _, value in status if name in _STATUS),
        tuple(resource.getrlimit(limit) for limit in _LIMITS),
        os.getpriority(os.PRIO_PROCESS, 0),
        tuple(Path(f"/proc/self/ns/{name}").readlink() for name in _NAMESPACES),
        Path("/proc/self/root").readlink(),
    )


def package_root() -> str:
    """The directory that this process imports `tidelog` from."""
    return str(Path(__file__).parents[2])


def environment() -> bytes:
    """All variables as `NAME=VALUE`, each ended by a zero byte."""
    return b"".join(name + b"=" + value + b"\0" for name, value in os.environb.copy().items())
