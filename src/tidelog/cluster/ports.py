"""Loopback ports: which are free, which are taken, and keeping ours while a node is down.

A reservation is a socket that is bound and never listens. Beside it a node (SO_REUSEADDR, as every event loop sets)
can bind and listen, a client that connects while the node is down is refused as it should be, and nobody else who
looks for a free port is given this one.
"""

import errno
import random
import socket
from collections.abc import Iterable
from typing import Final

from tidelog.cluster.errors import ClusterError

# Below the range the kernel hands to outgoing connections (32768 on Linux): no client of ours can sit on such a port.
FREE_PORT_RANGE: Final = range(20_000, 32_000)
FREE_PORT_ATTEMPTS: Final = 200

_TAKEN: Final = (errno.EADDRINUSE, errno.EACCES)


def loopback_hosts() -> tuple[str, ...]:
    """The loopback addresses this machine has: v4 always, v6 where it is switched on."""
    if not socket.has_ipv6:
        return ("127.0.0.1",)
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return ("127.0.0.1",)
    return ("127.0.0.1", "::1")


def _bind(host: str, port: int, *, reuse: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if reuse:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def listen_on_loopback(port: int) -> list[socket.socket]:
    """Listening sockets on every loopback address; one line when somebody else has the port."""
    listening: list[socket.socket] = []
    for host in loopback_hosts():
        try:
            sock = _bind(host, port, reuse=True)
            listening.append(sock)
            sock.listen()
            sock.setblocking(False)
        except OSError as error:
            for each in listening:
                each.close()
            raise _refused(port, host, error) from error
    return listening


def _refused(port: int, host: str, error: OSError) -> ClusterError:
    if error.errno == errno.EADDRINUSE:
        return ClusterError(f"port {port} is in use on {host}")
    return ClusterError(f"cannot bind port {port} on {host}: {error.strerror}")


class Reservations:
    """The ports of one cluster, held for as long as its supervisor lives."""

    def __init__(self, hosts: Iterable[str], rng: random.Random) -> None:
        self.hosts = tuple(hosts)
        self._rng = rng
        self._sockets: dict[int, list[socket.socket]] = {}

    def reserve(self, port: int) -> None:
        """Holds `port` on every loopback address; one line when somebody listens there."""
        if port in self._sockets:
            raise ClusterError(f"port {port} is requested twice")
        self._hold(port, reuse=True)

    def reserve_free(self) -> int:
        """Finds and holds a port that nobody uses, reserves, or has connections on."""
        for _ in range(FREE_PORT_ATTEMPTS):
            port = self._rng.choice(FREE_PORT_RANGE)
            if port in self._sockets or not self._is_unused(port):
                continue
            try:
                self._hold(port, reuse=True)
            except ClusterError:
                # Taken since it was looked at; the attempts are counted.
                continue
            return port
        raise ClusterError(
            f"no free port found in {FREE_PORT_RANGE.start}-{FREE_PORT_RANGE.stop - 1} on {' and '.join(self.hosts)}"
        )

    def holds(self, port: int) -> bool:
        return port in self._sockets

    def close(self) -> None:
        for sockets in self._sockets.values():
            for sock in sockets:
                sock.close()
        self._sockets.clear()

    def _is_unused(self, port: int) -> bool:
        # Without SO_REUSEADDR the bind also fails on somebody's reservation.
        for host in self.hosts:
            try:
                _bind(host, port, reuse=False).close()
            except OSError as error:
                if error.errno in _TAKEN:
                    return False
                raise
        return True

    def _hold(self, port: int, *, reuse: bool) -> None:
        held: list[socket.socket] = []
        for host in self.hosts:
            try:
                held.append(_bind(host, port, reuse=reuse))
            except OSError as error:
                for sock in held:
                    sock.close()
                raise _refused(port, host, error) from error
        self._sockets[port] = held
