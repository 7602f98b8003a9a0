"""What a process that forks nodes needs: code imported, a tie to its parent, a name in `ps`, its children reaped."""

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
# The kernel keeps this much of a name, with its terminating zero.
_MAX_NAME_BYTES: Final = 15
_MAX_WAKES: Final = 4096


def import_node() -> None:
    """Imports everything a node needs, so that a forked node starts with it."""
    # The thread that started this process may block signals. A node must see SIGTERM, and its parent SIGCHLD.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])

    import stringprep  # noqa: F401

    import uvloop  # noqa: F401

    import tidelog.broker.__main__
    import tidelog.broker.allocator
    import tidelog.broker.links_control
    import tidelog.broker.metrics_server
    import tidelog.broker.node
    import tidelog.broker.watch  # noqa: F401
    from tidelog.broker.warm_up import warm_up

    warm_up()

    assert threading.active_count() == 1, "a process with threads cannot be forked safely"
    # Otherwise each collection in a forked node writes to, and so copies, every page that it shares with this process.
    gc.collect()
    gc.freeze()


def die_with(parent: int) -> None:
    """Asks the kernel to end this process when its parent ends (Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot tie this process to its parent: prctl: {os.strerror(ctypes.get_errno())}")
    # The parent may have ended before the call.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def name_process(name: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:_MAX_NAME_BYTES], 0, 0, 0)


class Children:
    """The children of this process. `fileno` is readable when one of them has ended."""

    def __init__(self) -> None:
        self._woken, self._wake = os.pipe()
        for fd in (self._woken, self._wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def fileno(self) -> int:
        return self._woken

    def ended(self) -> Iterator[tuple[int, int]]:
        """Reaps the children that have ended: process id, and exit status or minus the signal."""
        os.read(self._woken, _MAX_WAKES)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            yield pid, os.waitstatus_to_exitcode(status)

    def forget(self) -> None:
        """In a forked child: these are the children of its parent."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._woken)
        os.close(self._wake)
