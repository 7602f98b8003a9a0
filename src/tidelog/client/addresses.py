"""Broker addresses as people write them: ``localhost:9092,[::1]:9093``."""

from typing import NamedTuple

from tidelog.client.errors import ClientError


class Address(NamedTuple):
    """Where a broker listens; prints as it is written."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Every address of a comma-separated list; ClientError names the first that is none."""
    addresses = tuple(_parse(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ClientError("no bootstrap server: pass HOST:PORT[,HOST:PORT…]")
    return tuple(dict.fromkeys(addresses))


def _parse(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host and not bracketed) or not port.isascii() or not port.isdigit():
        raise ClientError(f"{text!r} is not HOST:PORT")
    if not 0 < int(port) < 65536:
        raise ClientError(f"{text!r}: a port must be between 1 and 65535")
    return Address(host, int(port))
