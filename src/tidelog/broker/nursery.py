"""Forks nodes from a process that has imported them already: ``python -m tidelog.broker.nursery FD``.

Most of a node's start is importing it. A supervisor that starts three of them, and restarts them in tests, lets this
process import once and fork. It has no threads, no event loop and no state of its own, so a fork of it is as good as a
process of its own, and a node shares with it only pages of code.

Orders are messages of JSON on a unix socket, answers lines of JSON on stdout:

-> {"run": ["--config", "…/server.properties"], "output": "…/console.log", "name": "node-1", "tied": true,
    "inherit": ["--links-fd"]}            with a descriptor beside it for each option that takes one
<- {"started": 4711}
<- {"ended": 4711, "status": 0}           the exit status, or minus the signal

Ends when the socket does. Nodes that are `tied` die with it, however it dies (Linux).
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from typing import Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
# What the kernel keeps of a name, with its terminating zero.
_MAX_NAME_BYTES: Final = 15
_MAX_ORDER_BYTES: Final = 64 * 1024
_MAX_DESCRIPTORS: Final = 8


def main() -> int:
    # Named here and not above: what takes long is what a fork need not do again.
    import uvloop  # noqa: F401

    import tidelog.broker.__main__
    import tidelog.broker.allocator
    import tidelog.broker.metrics_server
    import tidelog.broker.node  # noqa: F401

    assert threading.active_count() == 1, "a process with threads cannot be forked safely"
    # Collections in a node would otherwise touch, and so copy, every page it shares with us.
    gc.collect()
    gc.freeze()
    orders = socket.socket(fileno=int(sys.argv[1]))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([orders.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, _MAX_ORDER_BYTES)
            _tell_ended()
        if orders.fileno() in readable:
            order, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, _MAX_DESCRIPTORS)
            if not order:
                return 0
            _tell({"started": _start(json.loads(order), descriptors, (orders.fileno(), woken, wake))})
            for descriptor in descriptors:
                os.close(descriptor)


def _start(order: dict[str, Any], inherited: list[int], ours: tuple[int, ...]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, inherited, parent, ours)
    return pid


def _become(order: dict[str, Any], inherited: list[int], parent: int, ours: tuple[int, ...]) -> NoReturn:
    """The new process: nothing of ours stays open, and nobody returns from here."""
    from tidelog.broker.__main__ import FAILED
    from tidelog.broker.__main__ import main as run

    status = FAILED
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in (null, output, *ours):
            os.close(descriptor)
        _arrange(order, parent)
        options = zip(order["inherit"], inherited, strict=True)
        status = run([*order["run"], *(word for option, fd in options for word in (option, str(fd)))])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else FAILED
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _arrange(order: dict[str, Any], parent: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, order["name"].encode()[:_MAX_NAME_BYTES], 0, 0, 0)
    if not order["tied"]:
        return
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot tie the node to its supervisor: prctl: {os.strerror(ctypes.get_errno())}")
    # It may have died before the kernel knew what to do about it.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _tell_ended() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _tell(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
