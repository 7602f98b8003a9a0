"""The rules between keys: listeners, directories, and bounds that only hold together."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.core.config.key import ConfigError, one_line
from tidelog.core.config.keys import TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers, list_of, required_list, text_of
from tidelog.core.config.listeners import (
    Endpoint,
    check_advertised,
    check_ports,
    parse_listeners,
    parse_protocol_map,
)
from tidelog.core.config.topic import check_inherited

if TYPE_CHECKING:
    from tidelog.core.config.node import NodeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the listener keys come to."""

    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    controller_names: tuple[str, ...]


def network(layers: ConfigLayers, roles: Collection[str]) -> Network:
    """The listeners of a node in these roles. Controllers are served where the node is one, clients where it is a
    broker; a listener of the other kind would stand open and answer nobody.
    """
    controller_names = tuple(name.upper() for name in required_list(layers, "controller.listener.names"))
    protocols = parse_protocol_map("listener.security.protocol.map", text_of(layers, "listener.security.protocol.map"))
    if layers.get("listener.security.protocol.map") is None:
        # As Kafka: without a map of one's own, controllers speak PLAINTEXT.
        protocols = dict.fromkeys(controller_names, "PLAINTEXT") | protocols
    listeners = parse_listeners("listeners", list_of(layers, "listeners"), protocols)
    check_ports("listeners", listeners)
    if "controller" in roles:
        _check_controller_names(controller_names, listeners)
    else:
        _check_no_controller_listener(controller_names, listeners, protocols)
    serving = [at for at in listeners if at.listener_name not in controller_names]
    if "broker" in roles and not serving:
        raise ConfigError("listeners: a broker needs a listener that is not in controller.listener.names")
    if "broker" not in roles and serving:
        raise ConfigError(
            f"listeners={serving[0]}: with process.roles=controller only those of controller.listener.names "
            f"({', '.join(controller_names)}) are allowed"
        )
    advertised = _advertised(layers, listeners, controller_names, protocols, roles)
    inter_broker = _inter_broker(layers, [at.listener_name for at in advertised], controller_names, roles)
    return Network(
        listeners=listeners, advertised=advertised, inter_broker=inter_broker, controller_names=controller_names
    )


def _check_controller_names(controller_names: tuple[str, ...], listeners: tuple[Endpoint, ...]) -> None:
    names = [at.listener_name for at in listeners]
    for name in controller_names:
        if name not in names:
            raise ConfigError(f"controller.listener.names={one_line(name)}: not in listeners ({', '.join(names)})")


def _check_no_controller_listener(
    controller_names: tuple[str, ...], listeners: tuple[Endpoint, ...], protocols: dict[str, str]
) -> None:
    """To a broker that is no controller the names only say how to talk to those that are."""
    for at in listeners:
        if at.listener_name in controller_names:
            raise ConfigError(f"listeners={at}: with process.roles=broker no listener of controller.listener.names")
    for name in controller_names:
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                f"controller.listener.names={one_line(name)}: it has no entry in listener.security.protocol.map"
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(
                f"controller.listener.names={one_line(name)}: {protocol} is not supported yet; accepted: PLAINTEXT"
            )


def _advertised(
    layers: ConfigLayers,
    listeners: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    protocols: dict[str, str],
    roles: Collection[str],
) -> tuple[Endpoint, ...]:
    """What is told to others. A controller listener that is not named there is told as it listens, and as this
    machine's own name (an empty host) when it listens everywhere.
    """
    if layers.get("advertised.listeners") is None:
        check_advertised("listeners", (at for at in listeners if at.listener_name not in controller_names))
        return tuple(replace(at, host="") if at.is_wildcard else at for at in listeners)
    told = parse_listeners("advertised.listeners", list_of(layers, "advertised.listeners"), protocols)
    check_advertised("advertised.listeners", told)
    names = [at.listener_name for at in listeners]
    for at in told:
        if at.listener_name not in names:
            raise ConfigError(f"advertised.listeners={at}: {at.listener_name} is not in listeners ({', '.join(names)})")
    told_names = [at.listener_name for at in told]
    if "broker" in roles and all(name in controller_names for name in told_names):
        raise ConfigError("advertised.listeners: a broker must advertise a listener that is not a controller's")
    untold = (at for at in listeners if at.listener_name in controller_names and at.listener_name not in told_names)
    return (*told, *(replace(at, host="") if at.is_wildcard else at for at in untold))


def _inter_broker(
    layers: ConfigLayers, advertised: list[str], controller_names: tuple[str, ...], roles: Collection[str]
) -> str:
    """The listener that brokers use among themselves; a node that is no broker need not have it."""
    given = layers.get("inter.broker.listener.name")
    if given is not None and layers.get("security.inter.broker.protocol") is not None:
        raise ConfigError("inter.broker.listener.name and security.inter.broker.protocol: set only one of them")
    key = "security.inter.broker.protocol" if given is None else "inter.broker.listener.name"
    name = text_of(layers, key).upper()
    choices = [choice for choice in advertised if choice not in controller_names]
    if "broker" in roles and name not in choices:
        raise ConfigError(f"{key}={one_line(name)}: not an advertised listener of this broker ({', '.join(choices)})")
    return name


def log_directories(layers: ConfigLayers) -> tuple[str, ...]:
    key = "log.dirs" if layers.get("log.dirs") is not None else "log.dir"
    dirs = list_of(layers, key)
    if not dirs or "" in dirs:
        raise ConfigError(f"{key}: needs at least one directory, and no empty one")
    if len({path.rstrip("/") for path in dirs}) < len(dirs):
        raise ConfigError(f"{key}={one_line(','.join(dirs))}: a directory stands there twice")
    return dirs


def connection_overrides(layers: ConfigLayers) -> tuple[tuple[str, int], ...]:
    """`host:count,…`, the hosts not yet resolved."""
    key = "max.connections.per.ip.overrides"
    found = []
    for entry in filter(None, (part.strip() for part in text_of(layers, key).split(","))):
        host, colon, count = entry.rpartition(":")
        if not (host and colon) or not count.isascii() or not count.isdigit():
            raise ConfigError(f"{key}={one_line(entry)}: allowed: host:count, comma-separated")
        found.append((host.strip("[]"), int(count)))
    return tuple(found)


def check_bounds(config: "NodeConfig") -> None:
    """Limits between numbers, and those of topic keys on the broker keys they inherit from."""
    for row in TOPIC_KEYS.values():
        check_inherited(config.layers, row)
    if config.log_retention_ms == 0:
        raise ConfigError("log.retention.hours or .minutes=0: allowed: at least 1, or -1 to keep records")
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        raise ConfigError(
            f"broker.heartbeat.interval.ms={config.broker_heartbeat_interval_ms}: must be at most half of "
            f"broker.session.timeout.ms={config.broker_session_timeout_ms}"
        )
    _check_replica_fetch(config)
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes={config.queued_max_request_bytes}: must be at least "
            f"socket.request.max.bytes={config.socket_request_max_bytes}"
        )
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise ConfigError("max.connections.per.ip=0: allowed only together with max.connections.per.ip.overrides")


def _check_replica_fetch(config: "NodeConfig") -> None:
    """A follower's fetch that waits for records must be over before anybody takes its silence for a failure."""
    wait_ms = config.replica_fetch_wait_max_ms
    for key, limit_ms in (
        ("replica.socket.timeout.ms", config.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", config.replica_lag_time_max_ms),
    ):
        if wait_ms > limit_ms:
            raise ConfigError(f"replica.fetch.wait.max.ms={wait_ms}: must be at most {key}={limit_ms}")
