"""Forks the nodes of one cluster from a process that has already imported them.

    python -m tidelog.broker.nursery FD PARENT        PARENT 0: the nursery and its nodes outlive the supervisor

Most of a node's start is importing it. The nursery imports once and forks each node. It has no threads and no event
loop, so a fork is safe, and a node shares only pages of code with it.

Orders and answers are messages of JSON on one unix socket:

-> {"run": ["--config", "…/server.properties"], "output": "…/console.log", "name": "node-1", "tied": true,
    "inherit": ["--links-fd"]}            with one descriptor for each option in `inherit`
<- {"started": 4711}
<- {"failed": "Resource temporarily unavailable"}    the nodes that run are not affected
<- {"ended": 4711, "status": 0}           the exit status, or minus the signal

The nursery ends when the supervisor shuts the socket down. Nodes that are `tied` die with the nursery, however it ends
(Linux).
"""

import json
import os
import select
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from tidelog.broker.forked import Children, die_with, import_node, name_process

_MAX_ORDER_BYTES: Final = 64 * 1024
_MAX_DESCRIPTORS: Final = 8


def main() -> None:
    orders, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    if parent:
        die_with(parent)
    import_node()
    serve(orders)


def serve(orders: socket.socket) -> NoReturn:
    """Obeys until the supervisor ends or closes the socket. Nodes that are not tied live on."""
    children = Children()
    status = 1
    try:
        _obey(orders, children)
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        # The supervisor ended while an answer was on its way.
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)


def _obey(orders: socket.socket, children: Children) -> None:
    waits_for: list[socket.socket | Children] = [orders, children]
    while True:
        readable, _, _ = select.select(waits_for, [], [])
        if children in readable:
            for pid, status in children.ended():
                _answer(orders, {"ended": pid, "status": status})
        if orders in readable:
            order, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, _MAX_DESCRIPTORS)
            if not order:
                return
            try:
                answer: dict[str, int | str] = {"started": _start(json.loads(order), descriptors, orders, children)}
            except OSError as error:
                answer = {"failed": error.strerror or str(error)}
            _answer(orders, answer)
            for descriptor in descriptors:
                os.close(descriptor)


def _start(order: dict[str, Any], inherited: list[int], orders: socket.socket, children: Children) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, inherited, parent, orders, children)
    return pid


def _become(
    order: dict[str, Any], inherited: list[int], parent: int, orders: socket.socket, children: Children
) -> NoReturn:
    """Runs as the new process. It keeps nothing of the nursery open, and never returns."""
    from tidelog.broker.__main__ import FAILED
    from tidelog.broker.__main__ import main as run

    status = FAILED
    try:
        os.setsid()
        children.forget()
        orders.close()
        null = os.open(os.devnull, os.O_RDONLY)
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in (null, output):
            os.close(descriptor)
        name_process(order["name"])
        if order["tied"]:
            die_with(parent)
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


def _answer(orders: socket.socket, message: Mapping[str, int | str]) -> None:
    orders.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
