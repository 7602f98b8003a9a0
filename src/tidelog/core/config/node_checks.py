"""The rules between keys: listeners, the quorum, directories, and bounds that only hold together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.core.config.key import ConfigError, one_line
from tidelog.core.config.keys import TOPIC_KEYS
from tidelog.core.config.layers import ConfigLayers, value_of
from tidelog.core.config.listeners import (
    Endpoint,
    QuorumVoter,
    check_advertised,
    check_ports,
    parse_listeners,
    parse_protocol_map,
    parse_server,
    parse_voters,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Who this node is among the controllers."""

    node_id: int
    voters: tuple[QuorumVoter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]


def network(layers: ConfigLayers) -> Network:
    controller_names = tuple(name.upper() for name in _required_list(layers, "controller.listener.names"))
    protocols = parse_protocol_map("listener.security.protocol.map", _text(layers, "listener.security.protocol.map"))
    if layers.get("listener.security.protocol.map") is None:
        # As Kafka: without a map of one's own, controllers speak PLAINTEXT.
        protocols = dict.fromkeys(controller_names, "PLAINTEXT") | protocols
    listeners = parse_listeners("listeners", _list(layers, "listeners"), protocols)
    check_ports("listeners", listeners)
    _check_names(controller_names, listeners)
    brokers = [at for at in listeners if at.listener_name not in controller_names]
    if not brokers:
        raise ConfigError("listeners: a broker needs a listener that is not in controller.listener.names")
    advertised = _advertised(layers, listeners, controller_names, protocols)
    inter_broker = _inter_broker(layers, [at.listener_name for at in advertised], controller_names)
    return Network(
        listeners=listeners, advertised=advertised, inter_broker=inter_broker, controller_names=controller_names
    )


def _check_names(controller_names: tuple[str, ...], listeners: tuple[Endpoint, ...]) -> None:
    names = [at.listener_name for at in listeners]
    for name in controller_names:
        if name not in names:
            raise ConfigError(f"controller.listener.names={one_line(name)}: not in listeners ({', '.join(names)})")


def _advertised(
    layers: ConfigLayers,
    listeners: tuple[Endpoint, ...],
    controller_names: tuple[str, ...],
    protocols: dict[str, str],
) -> tuple[Endpoint, ...]:
    """What is told to others; a controller listener that is not named there is told as it listens."""
    if layers.get("advertised.listeners") is None:
        check_advertised("listeners", (at for at in listeners if at.listener_name not in controller_names))
        return listeners
    told = parse_listeners("advertised.listeners", _list(layers, "advertised.listeners"), protocols)
    check_advertised("advertised.listeners", told)
    names = [at.listener_name for at in listeners]
    for at in told:
        if at.listener_name not in names:
            raise ConfigError(f"advertised.listeners={at}: {at.listener_name} is not in listeners ({', '.join(names)})")
    told_names = [at.listener_name for at in told]
    if all(name in controller_names for name in told_names):
        raise ConfigError("advertised.listeners: a broker must advertise a listener that is not a controller's")
    untold = (at for at in listeners if at.listener_name in controller_names and at.listener_name not in told_names)
    return (*told, *untold)


def _inter_broker(layers: ConfigLayers, advertised: list[str], controller_names: tuple[str, ...]) -> str:
    given = layers.get("inter.broker.listener.name")
    if given is not None and layers.get("security.inter.broker.protocol") is not None:
        raise ConfigError("inter.broker.listener.name and security.inter.broker.protocol: set only one of them")
    key = "security.inter.broker.protocol" if given is None else "inter.broker.listener.name"
    name = _text(layers, key).upper()
    choices = [choice for choice in advertised if choice not in controller_names]
    if name not in choices:
        raise ConfigError(f"{key}={one_line(name)}: not an advertised listener of this broker ({', '.join(choices)})")
    return name


def quorum(layers: ConfigLayers) -> Quorum:
    _required_list(layers, "process.roles")
    voters = parse_voters("controller.quorum.voters", _list(layers, "controller.quorum.voters"))
    key = "controller.quorum.bootstrap.servers"
    servers = tuple(parse_server(key, entry) for entry in _list(layers, key))
    if not voters and not servers:
        raise ConfigError("controller.quorum.voters or controller.quorum.bootstrap.servers is required")
    return Quorum(node_id=_node_id(layers), voters=voters, bootstrap_servers=servers)


def _node_id(layers: ConfigLayers) -> int:
    node_id, broker_id = value_of(layers, "node.id"), value_of(layers, "broker.id")
    if not isinstance(node_id, int):
        raise _required("node.id")
    if broker_id not in (-1, node_id):
        raise ConfigError(f"broker.id={broker_id}: must be equal to node.id={node_id}")
    return node_id


def log_directories(layers: ConfigLayers) -> tuple[str, ...]:
    key = "log.dirs" if layers.get("log.dirs") is not None else "log.dir"
    dirs = _list(layers, key)
    if not dirs or "" in dirs:
        raise ConfigError(f"{key}: needs at least one directory, and no empty one")
    if len({path.rstrip("/") for path in dirs}) < len(dirs):
        raise ConfigError(f"{key}={one_line(','.join(dirs))}: a directory stands there twice")
    return dirs


def connection_overrides(layers: ConfigLayers) -> tuple[tuple[str, int], ...]:
    """`host:count,…`, the hosts not yet resolved."""
    key = "max.connections.per.ip.overrides"
    found = []
    for entry in filter(None, (part.strip() for part in _text(layers, key).split(","))):
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
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes={config.queued_max_request_bytes}: must be at least "
            f"socket.request.max.bytes={config.socket_request_max_bytes}"
        )
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise ConfigError("max.connections.per.ip=0: allowed only together with max.connections.per.ip.overrides")


def check_not_built(config: "NodeConfig") -> None:
    """What Kafka allows and this version must refuse, or several nodes would each think themselves the quorum."""
    if any(voter.node_id != config.node_id for voter in config.controller_quorum_voters):
        shown = ",".join(map(str, config.controller_quorum_voters))
        raise ConfigError(
            f"controller.quorum.voters={one_line(shown)}: not supported: a quorum of several controllers is not "
            f"built yet; accepted: only this node, {config.node_id}@host:port"
        )
    if len(config.controller_quorum_bootstrap_servers) > 1:
        shown = ",".join(f"{host}:{port}" for host, port in config.controller_quorum_bootstrap_servers)
        raise ConfigError(
            f"controller.quorum.bootstrap.servers={one_line(shown)}: not supported: a quorum of several controllers "
            f"is not built yet; accepted: this node's own controller listener"
        )


def _list(layers: ConfigLayers, name: str) -> tuple[str, ...]:
    value = value_of(layers, name)
    return value if isinstance(value, tuple) else ()


def _required_list(layers: ConfigLayers, name: str) -> tuple[str, ...]:
    entries = tuple(filter(None, _list(layers, name)))
    if not entries:
        raise _required(name)
    return entries


def _text(layers: ConfigLayers, name: str) -> str:
    value = value_of(layers, name)
    return value if isinstance(value, str) else ""


def _required(name: str) -> ConfigError:
    return ConfigError(f"{name} is required")
