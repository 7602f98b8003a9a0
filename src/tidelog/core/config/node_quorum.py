"""Who the node is: its roles, its id, and how it finds the metadata quorum."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.core.config.key import ConfigError, one_line
from tidelog.core.config.layers import ConfigLayers, list_of, required, required_list, value_of
from tidelog.core.config.listeners import QuorumVoter, parse_server, parse_voters

if TYPE_CHECKING:
    from tidelog.core.config.node import NodeConfig

_VOTERS = "controller.quorum.voters"
_SERVERS = "controller.quorum.bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """What the keys of identity and quorum come to.

    Voters stand in the config of every node (static), or in the metadata log and a node asks the bootstrap servers
    for them (KIP-853). With both keys set the voters of the config are those a static quorum starts from.
    """

    node_id: int
    roles: tuple[str, ...]
    voters: tuple[QuorumVoter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]


def quorum(layers: ConfigLayers) -> Quorum:
    roles = required_list(layers, "process.roles")
    if len(set(roles)) < len(roles):
        raise ConfigError(f"process.roles={','.join(roles)}: a role stands there twice")
    node_id = _node_id(layers)
    voters = parse_voters(_VOTERS, list_of(layers, _VOTERS))
    servers = tuple(parse_server(_SERVERS, entry) for entry in list_of(layers, _SERVERS))
    if not voters and not servers:
        raise ConfigError(f"{_VOTERS} or {_SERVERS} is required")
    if voters:
        _check_membership(node_id, roles, voters)
    _check_ports(_VOTERS, ((voter.host, voter.port) for voter in voters if voter.node_id != node_id))
    _check_ports(_SERVERS, servers)
    return Quorum(node_id=node_id, roles=roles, voters=voters, bootstrap_servers=servers)


def _check_membership(node_id: int, roles: tuple[str, ...], voters: tuple[QuorumVoter, ...]) -> None:
    """With static voters to be a controller is to be a voter."""
    is_voter = any(voter.node_id == node_id for voter in voters)
    shown = one_line(",".join(map(str, voters)))
    if "controller" in roles and not is_voter:
        raise ConfigError(f"{_VOTERS}={shown}: this controller, node.id={node_id}, must be among them")
    if "controller" not in roles and is_voter:
        raise ConfigError(f"{_VOTERS}={shown}: node.id={node_id} is among them, but process.roles=broker")


def _check_ports(key: str, addresses: Iterable[tuple[str, int]]) -> None:
    """Port 0 is a free port to listen on, but nobody can be reached there."""
    for host, port in addresses:
        if port == 0:
            raise ConfigError(f"{key}: {one_line(host)}:0 is no address to reach another node at")


def _node_id(layers: ConfigLayers) -> int:
    node_id, broker_id = value_of(layers, "node.id"), value_of(layers, "broker.id")
    if not isinstance(node_id, int):
        raise required("node.id")
    if broker_id not in (-1, node_id):
        raise ConfigError(f"broker.id={broker_id}: must be equal to node.id={node_id}")
    return node_id


def quorum_warnings(config: "NodeConfig") -> list[str]:
    """What Kafka takes and is probably a mistake."""
    warnings = []
    if not config.is_controller and len(config.controller_listener_names) > 1:
        names = config.controller_listener_names
        warnings.append(
            f"controller.listener.names={','.join(names)}: a broker that is no controller uses only {names[0]}"
        )
    own = next((voter for voter in config.controller_quorum_voters if voter.node_id == config.node_id), None)
    ports = [at.port for at in (*config.controller_listeners, *config.advertised_controller_listeners)]
    # A mapped port may differ from the one listened on, so this cannot be refused.
    if own is not None and 0 not in ports and own.port not in ports:
        warnings.append(
            f"{_VOTERS} tells others to reach this controller at {own}, but it listens on "
            f"{', '.join(map(str, config.controller_listeners))}"
        )
    return warnings
