"""Who votes first: what `format` was asked, as `kafka-storage format` is (KIP-853).

Voters stand in `controller.quorum.voters` of every node, or, when that is not set, in the metadata log. Then somebody
has to say once who they are: this node alone (`--standalone`), a list with everybody's directory ids
(`--initial-controllers`, the same for all of them), or nobody yet (`--no-initial-controllers`: this controller joins a
quorum that exists).
"""

import random
from dataclasses import dataclass
from uuid import UUID

from tidelog.core.config.key import ConfigError, one_line
from tidelog.core.config.listeners import Endpoint, parse_server
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import RESERVED_UUIDS, random_uuid, uuid_from_text
from tidelog.quorum.voters import KRAFT_VERSION_RECONFIGURABLE, ReplicaKey, Voter, VoterSet

INITIAL = "--initial-controllers"
STANDALONE = "--standalone"
NONE = "--no-initial-controllers"


@dataclass(frozen=True, slots=True)
class InitialController:
    """An entry of `--initial-controllers`."""

    node_id: int
    host: str
    port: int
    directory_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterFlags:
    """At most one of the three is given; the command line sees to that."""

    standalone: bool = False
    initial_controllers: tuple[InitialController, ...] = ()
    no_initial_controllers: bool = False

    @property
    def given(self) -> str | None:
        if self.standalone:
            return STANDALONE
        if self.initial_controllers:
            return INITIAL
        return NONE if self.no_initial_controllers else None


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """`1@host:port:DIRECTORYID,…`; ConfigError is one line for the user."""
    entries = [_parse_controller(entry.strip()) for entry in text.split(",")]
    for what, count in (
        ("node id", len({entry.node_id for entry in entries})),
        ("directory id", len({entry.directory_id for entry in entries})),
        ("address", len({(entry.host, entry.port) for entry in entries})),
    ):
        if count < len(entries):
            raise ConfigError(f"{INITIAL} {one_line(text)}: two controllers have the same {what}")
    return tuple(entries)


def _parse_controller(entry: str) -> InitialController:
    node_id, at, rest = entry.partition("@")
    server, colon, directory = rest.rpartition(":")
    if not (at and colon) or not node_id.isascii() or not node_id.isdigit():
        raise ConfigError(f"{INITIAL} {one_line(entry)}: allowed: id@host:port:directory-id, comma-separated")
    host, port = parse_server(INITIAL, server)
    try:
        directory_id = uuid_from_text(directory)
    except ValueError as error:
        raise ConfigError(f"{INITIAL} {one_line(entry)}: {error}; tidelog random-uuid makes one") from error
    if directory_id in RESERVED_UUIDS:
        raise ConfigError(f"{INITIAL} {one_line(entry)}: this directory id is reserved; tidelog random-uuid makes one")
    return InitialController(int(node_id), host, port, directory_id)


def first_voters(config: NodeConfig, flags: VoterFlags, rng: random.Random) -> VoterSet | None:
    """The voters to write into the metadata directory; None where they stand elsewhere. ConfigError for flags that
    contradict the config.
    """
    if not config.is_controller:
        if flags.standalone:
            raise ConfigError(f"{STANDALONE}: node.id={config.node_id} is not a controller")
        # The one command line may be meant for all nodes. A broker asks the quorum who votes, and keeps nothing of it.
        return None
    if config.controller_quorum_voters:
        if flags.given is not None:
            raise ConfigError(
                f"{flags.given}: controller.quorum.voters already names the voters; remove one of the two"
            )
        return None
    if flags.initial_controllers:
        return _listed(config, flags.initial_controllers)
    if flags.no_initial_controllers:
        return None
    if flags.standalone or _is_lone(config):
        key = ReplicaKey(config.node_id, random_uuid(rng))
        return VoterSet.of([Voter(key, _own_endpoints(config))], KRAFT_VERSION_RECONFIGURABLE)
    raise ConfigError(
        f"controller.quorum.voters is not set, so name the first voters with {STANDALONE}, {INITIAL} or {NONE}"
    )


def _listed(config: NodeConfig, controllers: tuple[InitialController, ...]) -> VoterSet:
    if all(entry.node_id != config.node_id for entry in controllers):
        raise ConfigError(
            f"{INITIAL}: node.id={config.node_id} is not among them; a controller that joins later is formatted "
            f"with {NONE}"
        )
    listener = config.controller_listener_names[0]
    voters = (
        Voter(ReplicaKey(entry.node_id, entry.directory_id), ((listener, entry.host, entry.port),))
        for entry in controllers
    )
    return VoterSet.of(voters, KRAFT_VERSION_RECONFIGURABLE)


def _own_endpoints(config: NodeConfig) -> tuple[tuple[str, str, int], ...]:
    # As Kafka: a listener on every interface is written down as localhost unless another address is advertised.
    return tuple((at.listener_name, at.host or "localhost", at.port) for at in config.advertised_controller_listeners)


def _is_lone(config: NodeConfig) -> bool:
    """Broker and controller in one, whose only bootstrap server is itself: there is nobody else who could vote."""
    servers = config.controller_quorum_bootstrap_servers
    if not config.is_broker or len(servers) != 1:
        return False
    own = (*config.controller_listeners, *config.advertised_controller_listeners)
    return any(_is_at(Endpoint(at.listener_name, *servers[0]), at) for at in own)


def _is_at(server: Endpoint, listener: Endpoint) -> bool:
    if server.port != listener.port:
        return False
    if server.is_loopback:
        return not listener.host or listener.is_wildcard or listener.is_loopback
    return server.host == listener.host
