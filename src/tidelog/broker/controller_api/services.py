"""What the handlers of the controller's listener have at hand: one object, built by `node.py`."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidelog.broker.dispatch import ClientConnection
from tidelog.metadata.image import ClusterImage
from tidelog.quorum.voters import VoterSet


class QuorumView(Protocol):
    """What a member of the quorum knows of the others."""

    @property
    def leader_id(self) -> int: ...

    @property
    def voters(self) -> VoterSet: ...

    def endpoint(self, node_id: int) -> tuple[str, int] | None: ...


class QuorumMember(Protocol):
    """This node's part in the metadata quorum."""

    @property
    def raft(self) -> QuorumView: ...

    async def receive(self, source: int, request: Any) -> Any:
        """The response to a request of the quorum's; one that is parked is waited for."""
        ...


class ControllerPort(Protocol):
    """This node's controller. A request that reaches it while it is not active is answered NOT_CONTROLLER."""

    async def send(self, request: Any, *, timeout_ms: int = ...) -> Any: ...

    def heartbeat_heard(self, connection: Hashable, broker_id: int, epoch: int) -> None: ...

    def connection_lost(self, connection: Hashable) -> None: ...

    def connection_closed(self, connection: Hashable) -> None: ...


@dataclass(slots=True, kw_only=True)
class ControllerServices:
    """`image` gives the metadata that is committed as far as this node knows."""

    node_id: int
    cluster_id: str
    quorum: QuorumMember
    controller: ControllerPort | None
    image: Callable[[], ClusterImage]
    # Those that have carried a heartbeat: the controller is to hear of their end, once.
    heartbeat_connections: set[ClientConnection] = field(default_factory=set)
