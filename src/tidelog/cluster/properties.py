"""The `server.properties` of each node, as `tidelog node` would be given on a machine of its own."""

from collections.abc import Mapping
from typing import Final

from tidelog.cluster.errors import BadConfig, BadRequest
from tidelog.cluster.layout import ClusterDir, ClusterLayout, NodeLayout, QuorumKind
from tidelog.core.config.key import ConfigError
from tidelog.core.config.layers import check_static
from tidelog.core.config.properties import format_properties
from tidelog.core.config.unknown import refuse_unknown

REPLICATION_FACTOR_AT_MOST: Final = 3

# What makes a node this node of this cluster: `--set` cannot change it.
OWNED_KEYS: Final = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "tidelog.metrics.host",
        "tidelog.metrics.port",
    }
)


def parse_settings(settings: list[str]) -> dict[str, str]:
    """`--set key=value` as given; `check_settings` judges keys and values."""
    parsed: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise BadRequest(f"--set needs key=value, not {setting!r}")
        parsed[key] = value.strip()
    return parsed


def check_settings(settings: Mapping[str, str]) -> None:
    """BadConfig for keys and values that no broker of ours may have."""
    owned = sorted(OWNED_KEYS.intersection(settings))
    if owned:
        raise BadConfig(f"{owned[0]} is set by the cluster itself; run the node with `tidelog node` to choose it")
    for name, value in settings.items():
        if not isinstance(value, str):
            raise BadConfig(f"{name}: a config value is text, {str(value)!r} instead of {value!r}")
    try:
        refuse_unknown(settings)
        check_static(settings)
    except ConfigError as error:
        raise BadConfig(str(error)) from error


def check_together(properties: Mapping[str, str]) -> None:
    """BadConfig for values of one node that contradict each other."""
    # Only a cluster with settings of its own pays for this import.
    from tidelog.core.config.node import NodeConfig

    try:
        NodeConfig.parse(properties)
    except ConfigError as error:
        raise BadConfig(str(error)) from error


def node_properties(
    directory: ClusterDir,
    layout: ClusterLayout,
    node: NodeLayout,
    hosts: tuple[str, ...],
    settings: Mapping[str, str],
) -> dict[str, str]:
    """All keys of one node; `settings` win over defaults and never over what makes the node itself."""
    check_settings(settings)
    replicas = str(min(REPLICATION_FACTOR_AT_MOST, len(layout.nodes)))
    listeners = [f"{_listener_name(host)}://{_literal(host)}:{node.port}" for host in hosts]
    protocols = [f"{_listener_name(host)}:PLAINTEXT" for host in hosts] + ["CONTROLLER:PLAINTEXT"]
    if node.controller_port is not None:
        listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        # Over loopback the kernel's own buffers save a quarter of a broker's CPU; Kafka's default is for real networks.
        "socket.receive.buffer.bytes": "-1",
        "socket.send.buffer.bytes": "-1",
        **settings,
        "node.id": str(node.id),
        "process.roles": ",".join(node.roles),
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        **_quorum(layout),
        "log.dirs": str(directory.log_dir(node.id)),
        "tidelog.metrics.host": "localhost",
        "tidelog.metrics.port": str(node.metrics_port),
    }


def _quorum(layout: ClusterLayout) -> dict[str, str]:
    """Who votes, or where to ask who does."""
    servers = {node.id: f"127.0.0.1:{node.controller_port}" for node in layout.controllers}
    if layout.quorum is QuorumKind.STATIC:
        return {"controller.quorum.voters": ",".join(f"{node}@{server}" for node, server in servers.items())}
    return {"controller.quorum.bootstrap.servers": ",".join(servers.values())}


def render(properties: Mapping[str, str]) -> str:
    """Java's properties format; the node reads it back to the same keys and values."""
    return "# Written at every start of the cluster. To change a key: tidelog up --set key=value\n" + format_properties(
        properties
    )


def _listener_name(host: str) -> str:
    # Two listeners may share a port only under two names, one v4 and one v6 (KIP-797).
    return "PLAINTEXT_V6" if ":" in host else "PLAINTEXT"


def _literal(host: str) -> str:
    return f"[{host}]" if ":" in host else host
