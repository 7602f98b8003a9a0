"""The bounds of the network layer, from the node's config."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.wire.codec import REQUEST_LIMITS, Limits

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Everything that a client can make us hold, wait for or do, with its bound."""

    max_request_bytes: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`"""
    message: Limits = REQUEST_LIMITS
    """`tidelog.request.max.elements`, `tidelog.request.max.tagged.fields`"""
    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_idle_s: float = 600.0
    """`connections.max.idle.ms`"""
    frame_timeout_s: float = 30.0
    """`tidelog.request.frame.timeout.ms`: from a frame's first byte to its last."""
    max_in_flight: int = 100
    """`tidelog.connection.max.inflight.requests`: waiting requests of one connection; then reading pauses."""
    max_in_flight_bytes: int = 16 * 1024 * 1024
    """The bytes of those requests, at which reading pauses as well (the frame that exceeds it is served)."""
    max_queued_bytes: int = 512 * 1024 * 1024
    """Request bytes held by all connections (`queued.max.request.bytes` where that is set)."""
    write_high_bytes: int = 16 * 1024 * 1024
    """`tidelog.connection.max.outbound.bytes`: unsent bytes, above which nothing more is read or answered."""
    frames_per_turn: int = 32
    """Requests of one connection per turn of the event loop; then the others have theirs."""
    linger_s: float = 5.0
    """How long a closed connection may take to send what was answered before."""
    send_buffer_bytes: int = -1
    """SO_SNDBUF, SO_RCVBUF; -1 leaves them to the operating system."""
    receive_buffer_bytes: int = -1
    listen_backlog: int = 50

    def connections_allowed(self, host: str) -> int:
        return self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
