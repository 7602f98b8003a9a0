"""Ports for tests that must name them."""

import os
import socket

from tidelog.cluster.ports import FREE_PORT_RANGE

_PARTS = 8


def consecutive_ports(count: int) -> int:
    """The first of `count` ports in a row that no listener on, outside of what the kernel hands out by itself.

    Each worker of a parallel run looks in a part of its own: what it found free is used only a moment later.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PARTS
    size = len(FREE_PORT_RANGE) // _PARTS
    part = FREE_PORT_RANGE[worker * size : (worker + 1) * size]
    for first in part[os.getpid() % (size // 2) : -count : count]:
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
