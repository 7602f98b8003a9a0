"""Unix sockets under paths of any length: `sun_path` holds 104 to 108 bytes, a test's directory often more."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.platform import ON_LINUX

# The smallest of the platforms we know (macOS), with its terminating zero.
MAX_PATH_BYTES: Final = 103


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for `path` that fits; valid inside the block."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    if not ON_LINUX:
        raise ClusterError(
            f"{path} is too long for a unix socket ({MAX_PATH_BYTES} bytes): use a shorter data directory"
        )
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def listen(path: Path) -> socket.socket:
    """A listening socket at `path` for its owner alone.

    What lies there is removed: the caller holds the directory's lock, so nobody listens on it any more.
    """
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            sock.bind(name)
            # Between bind and listen nobody can connect, so nobody ever meets other permissions.
            Path(name).chmod(0o600)
        sock.listen(16)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to whoever listens at `path`; ConnectionRefusedError or FileNotFoundError when nobody does."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        with _short(path) as name:
            sock.connect(name)
    except BaseException:
        sock.close()
        raise
    return sock
