"""Forks a nursery for each cluster of one process, such as a pytest session: the node is imported once for all of them.

    python -m tidelog.broker.template FD PARENT

Each order is a message on a unix socket. It carries three descriptors and no other data: the nursery's end of its
socket, the environment (`NAME=VALUE`, each ended by a zero byte) and the working directory. Answers are JSON:

<- {"nursery": 4711}                   with a pidfd of the new nursery
<- {"stale": "…/broker/node.py"}       this imported file has changed since: nothing was forked
<- {"failed": "Resource temporarily unavailable"}

A nursery starts with exactly that environment and working directory, so one cluster cannot see those of another. It
dies with the template, and the template dies with PARENT. After the socket is shut down, the template ends as soon as
the last of its nurseries has ended.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Final, NoReturn

from tidelog.broker.forked import Children, die_with, import_node, name_process
from tidelog.broker.nursery import serve

ORDER: Final = b"fork"
_DESCRIPTORS: Final = 3
_READ_BYTES: Final = 1024 * 1024

# Device, inode, size, and the times of the last changes to content and inode.
_Identity = tuple[int, int, int, int, int]


class ImportedFiles:
    """The files this process was imported from, to see whether one of them has changed since."""

    def __init__(self, began_ns: int) -> None:
        paths: list[str | None] = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        self._identities = {path: _identity(path) for path in paths if path is not None}
        ended_ns = time.time_ns()  # noqa: TID251 - compared with the time stamps of files
        # A file that changed during the import may have been read before or after. One with a time in the future has
        # not: the clock of this machine or of its file server is wrong.
        self._unsure = next(
            (path for path, found in self._identities.items() if found and began_ns <= found[-1] <= ended_ns), None
        )

    def changed(self) -> str | None:
        """The path of a file that has changed since the import or during it, if any."""
        if self._unsure is not None:
            return self._unsure
        return next((path for path, before in self._identities.items() if _identity(path) != before), None)


def _identity(path: str) -> _Identity | None:
    """None: there is no such file, as for a module in an archive."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def main() -> None:
    # Its owner created this file just before it started this process, which had imported nothing then.
    began_ns = os.fstat(sys.stderr.fileno()).st_ctime_ns
    orders, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    die_with(parent)
    name_process("tidelog-template")
    import_node()
    files = ImportedFiles(began_ns)
    children = Children()
    nurseries: set[int] = set()
    waits_for: list[socket.socket | Children] = [orders, children]
    # A template that was started for an order is as new as it can be.
    is_first = True
    while orders in waits_for or nurseries:
        readable, _, _ = select.select(waits_for, [], [])
        if children in readable:
            nurseries.difference_update(pid for pid, _ in children.ended())
        if orders in readable:
            order, descriptors, _, _ = socket.recv_fds(orders, len(ORDER), _DESCRIPTORS)
            if not order:
                waits_for.remove(orders)
                continue
            answer: dict[str, int | str] = {}
            pidfds = []
            stale = None if is_first else files.changed()
            is_first = False
            if stale is not None:
                answer["stale"] = stale
            else:
                try:
                    pid, pidfd = _fork(orders, children, descriptors)
                except OSError as error:
                    # Running clusters go on.
                    answer["failed"] = error.strerror or str(error)
                else:
                    nurseries.add(pid)
                    pidfds.append(pidfd)
                    answer["nursery"] = pid
            try:
                socket.send_fds(orders, [json.dumps(answer).encode()], pidfds)
            except (BrokenPipeError, ConnectionResetError):
                waits_for.remove(orders)
                orders.close()
                # Its owner gave up waiting. Another template may already have a nursery on the same socket.
                for pidfd in pidfds:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            for descriptor in (*descriptors, *pidfds):
                os.close(descriptor)


def _fork(orders: socket.socket, children: Children, descriptors: list[int]) -> tuple[int, int]:
    """The new nursery: its process id, and a pidfd."""
    if len(descriptors) != _DESCRIPTORS:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(orders, children, parent, *descriptors)
    try:
        # The child is not reaped yet, so its process id cannot belong to another process.
        return pid, os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise


def _become(
    orders: socket.socket, children: Children, parent: int, socket_fd: int, environment: int, directory: int
) -> NoReturn:
    """Runs as the new nursery; never returns."""
    try:
        os.setsid()
        children.forget()
        orders.close()
        name_process("tidelog-nursery")
        die_with(parent)
        _take_environment(environment)
        os.fchdir(directory)
        for descriptor in (environment, directory):
            os.close(descriptor)
        serve(socket.socket(fileno=socket_fd))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(1)


def _take_environment(fd: int) -> None:
    """Replaces the environment. Variables that are read only when Python starts are compared by the other side."""
    os.lseek(fd, 0, os.SEEK_SET)
    content = b""
    while piece := os.read(fd, _READ_BYTES):
        content += piece
    os.environb.clear()
    for entry in content.split(b"\0"):
        if entry:
            # The first byte may be an equals sign: some shells keep such names.
            name, _, value = entry[1:].partition(b"=")
            os.environb[entry[:1] + name] = value
    time.tzset()


if __name__ == "__main__":
    main()
