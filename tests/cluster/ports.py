"""Ports for tests that must name them."""

import os
import socket

from tidelog.cluster.ports import FREE_PORT_RANGE


def consecutive_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on, outside of what the kernel hands out by itself."""
    for first in FREE_PORT_RANGE[os.getpid() % 1000 :: count]:
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
