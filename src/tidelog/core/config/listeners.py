"""Listeners and endpoints: `PLAINTEXT://[::1]:9092`, and the rules between the keys that name them."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.core.config.key import ConfigError, one_line

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_LISTENER: Final = re.compile(r"([^:/,\s]+)://(?:\[([0-9a-zA-Z:.%_-]*)\]|([0-9a-zA-Z._-]*)):([0-9]{1,5})")
_SERVER: Final = re.compile(r"(?:\[([0-9a-zA-Z:.%_-]+)\]|([0-9a-zA-Z._-]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen or connect.

    To listen on, an empty host is every interface and port 0 a free port. To advertise, an empty host is this
    machine's own name and port 0 the port that was bound: only the shell that opens sockets knows either.
    """

    listener_name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.listener_name}://{host_text(self.host)}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        address = _address(self.host)
        return self.host == "localhost" if address is None else address.is_loopback

    @property
    def is_wildcard(self) -> bool:
        """0.0.0.0 or ::, which nobody can connect to."""
        address = _address(self.host)
        return address is not None and address.is_unspecified


@dataclass(frozen=True, slots=True)
class QuorumVoter:
    """An entry of controller.quorum.voters."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{host_text(self.host)}:{self.port}"


def host_text(host: str) -> str:
    """A host as it stands before `:port`."""
    return f"[{host}]" if ":" in host else host


def parse_server(key: str, entry: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`."""
    match = _SERVER.fullmatch(entry)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{key}={one_line(entry)}: allowed: host:port or [IPv6 address]:port")
    host = _checked_host(key, entry, match[1], match[2])
    return host, int(match[3])


def parse_voters(key: str, entries: Iterable[str]) -> tuple[QuorumVoter, ...]:
    """`1@host:9093,…`, every id once."""
    voters = []
    for entry in entries:
        node_id, at, server = entry.partition("@")
        if not at or not node_id.isascii() or not node_id.isdigit():
            raise ConfigError(f"{key}={one_line(entry)}: allowed: id@host:port, comma-separated")
        voters.append(QuorumVoter(int(node_id), *parse_server(key, server)))
    if len({voter.node_id for voter in voters}) < len(voters):
        raise ConfigError(f"{key}={','.join(map(str, voters))}: a node id stands there twice")
    return tuple(voters)


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…`; names are upper case as Kafka makes them."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not (name and colon) or protocol not in PROTOCOLS:
            raise ConfigError(
                f"{key}={one_line(entry)}: allowed: LISTENER:PROTOCOL, the protocol one of {', '.join(PROTOCOLS)}"
            )
        if name in protocols:
            raise ConfigError(f"{key}={one_line(text)}: listener {name} stands there twice")
        protocols[name] = protocol
    return protocols


def parse_listeners(key: str, entries: Sequence[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The endpoints of `listeners` or `advertised.listeners`; every name once, and a protocol we speak."""
    endpoints: list[Endpoint] = []
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match[4]) > 65535:
            raise ConfigError(f"{key}={one_line(entry)}: allowed: NAME://host:port, comma-separated, IPv6 as [::1]")
        name = match[1].upper()
        host = _checked_host(key, entry, match[2], match[3])
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"{key}={one_line(entry)}: {name} has no entry in listener.security.protocol.map")
        if protocol != "PLAINTEXT":
            raise ConfigError(f"{key}={one_line(entry)}: {protocol} is not supported yet; accepted: PLAINTEXT")
        if any(other.listener_name == name for other in endpoints):
            raise ConfigError(f"{key}={one_line(entry)}: listener {name} stands there twice")
        endpoints.append(Endpoint(name, host, int(match[4]), protocol))
    if not endpoints:
        raise ConfigError(f"{key}: needs at least one listener, as PLAINTEXT://localhost:9092")
    return tuple(endpoints)


def check_ports(key: str, endpoints: Sequence[Endpoint]) -> None:
    """Two listeners may share a port only as an IPv4 and an IPv6 address, as Kafka allows."""
    for index, one in enumerate(endpoints):
        for other in endpoints[:index]:
            if one.port == other.port != 0 and not _is_dual_stack(one.host, other.host):
                raise ConfigError(f"{key}: {other} and {one} have the same port")


def check_advertised(key: str, endpoints: Iterable[Endpoint]) -> None:
    for endpoint in endpoints:
        if endpoint.is_wildcard:
            raise ConfigError(
                f"{key}: cannot advertise {endpoint}: clients cannot connect to {endpoint.host}; "
                f"set advertised.listeners to an address they can reach"
            )


def _checked_host(key: str, entry: str, bracketed: str | None, plain: str | None) -> str:
    if bracketed is None:
        return plain or ""
    address = _address(bracketed)
    if bracketed and (address is None or address.version != 6):
        raise ConfigError(f"{key}={one_line(entry)}: {one_line(bracketed)} is not an IPv6 address")
    return bracketed


def _is_dual_stack(one: str, other: str) -> bool:
    first, second = _address(one), _address(other)
    return first is not None and second is not None and first.version != second.version


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The literal address, or None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
