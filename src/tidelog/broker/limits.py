"""The bounds of the network layer, from the node's config."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from tidelog.core.config.node import NodeConfig
from tidelog.wire.codec import REQUEST_LIMITS, Limits

UNLIMITED: Final = 2**31 - 1
DEFAULT_QUEUED_BYTES: Final = 512 * 1024 * 1024


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
    max_queued_bytes: int = DEFAULT_QUEUED_BYTES
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

    @classmethod
    def from_config(cls, config: NodeConfig) -> Self:
        queued = config.queued_max_request_bytes
        idle_ms = config.connections_max_idle_ms
        return cls(
            max_request_bytes=config.socket_request_max_bytes,
            message=Limits(
                max_elements=config.tidelog_request_max_elements,
                max_tagged_fields=config.tidelog_request_max_tagged_fields,
            ),
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_connections_per_ip_overrides=dict(config.max_connections_per_ip_overrides),
            max_idle_s=idle_ms / 1000 if idle_ms >= 0 else math.inf,
            frame_timeout_s=config.tidelog_request_frame_timeout_ms / 1000,
            max_in_flight=config.tidelog_connection_max_inflight_requests,
            max_queued_bytes=queued if queued > 0 else DEFAULT_QUEUED_BYTES,
            write_high_bytes=config.tidelog_connection_max_outbound_bytes,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            listen_backlog=config.socket_listen_backlog_size,
        )

    def connections_allowed(self, host: str) -> int:
        return self.max_connections_per_ip_overrides.get(host, self.max_connections_per_ip)
