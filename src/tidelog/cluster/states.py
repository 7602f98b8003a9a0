"""The life of a node as its supervisor sees it.

STOPPED | KILLED | CRASHED -> STARTING -> RUNNING
STARTING | RUNNING <-> PAUSED                             it goes on as what it was
STARTING | RUNNING | PAUSED -> STOPPING -> STOPPED        an orderly stop, asked for
STARTING | RUNNING | PAUSED | STOPPING -> KILLED          SIGKILL, asked for
STARTING | RUNNING | PAUSED -> CRASHED                    it ended and nobody had asked
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final


class NodeState(Enum):
    """Where a node is; the values are the words of `tidelog status`."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    KILLED = "killed"
    CRASHED = "crashed"


ALIVE: Final = frozenset({NodeState.STARTING, NodeState.RUNNING, NodeState.PAUSED, NodeState.STOPPING})

TRANSITIONS: Final[dict[NodeState, frozenset[NodeState]]] = {
    NodeState.STOPPED: frozenset({NodeState.STARTING}),
    NodeState.KILLED: frozenset({NodeState.STARTING}),
    NodeState.CRASHED: frozenset({NodeState.STARTING}),
    NodeState.STARTING: frozenset(
        {NodeState.RUNNING, NodeState.PAUSED, NodeState.STOPPING, NodeState.KILLED, NodeState.CRASHED}
    ),
    NodeState.RUNNING: frozenset({NodeState.PAUSED, NodeState.STOPPING, NodeState.KILLED, NodeState.CRASHED}),
    NodeState.PAUSED: frozenset(
        {NodeState.STARTING, NodeState.RUNNING, NodeState.STOPPING, NodeState.KILLED, NodeState.CRASHED}
    ),
    NodeState.STOPPING: frozenset({NodeState.STOPPED, NodeState.KILLED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One row of `tidelog status`."""

    id: int
    pid: int | None
    port: int
    state: str
    roles: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "pid": self.pid, "port": self.port, "state": self.state, "roles": list(self.roles)}
