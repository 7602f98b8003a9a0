"""The kinds of faults: whom they hit, what they do, how they are undone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Protocol

from tidelog.cluster.control import call
from tidelog.cluster.layout import ClusterDir
from tidelog.verify.watch import View
from tidelog.wire.messages.metadata import MetadataResponsePartition


class FaultPort(Protocol):
    """What a cluster lets be done to it. All of it blocks until it is done; a ClusterError says why it is not."""

    def nodes(self) -> list[int]: ...
    def kill(self, node: int) -> None: ...
    def start(self, node: int) -> None: ...
    def pause(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def isolate(self, node: int, from_nodes: Sequence[int] | None) -> None: ...
    def heal(self) -> None: ...


class ControlSocket:
    """The `FaultPort` of a cluster that `tidelog up` or `tidelog.testing.Cluster` started."""

    def __init__(self, data: Path) -> None:
        self._directory = ClusterDir(data)

    def nodes(self) -> list[int]:
        return [int(node["id"]) for node in call(self._directory, "status")["nodes"]]

    def kill(self, node: int) -> None:
        call(self._directory, "kill", node=node)

    def start(self, node: int) -> None:
        call(self._directory, "start", node=node)

    def pause(self, node: int) -> None:
        call(self._directory, "pause", node=node)

    def resume(self, node: int) -> None:
        call(self._directory, "resume", node=node)

    def isolate(self, node: int, from_nodes: Sequence[int] | None) -> None:
        fields = {"from": list(from_nodes)} if from_nodes is not None else {}
        call(self._directory, "isolate", node=node, **fields)

    def heal(self) -> None:
        call(self._directory, "heal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a fault chooses its victim from."""

    nodes: tuple[int, ...]
    view: View
    # Only known to kinds that ask for it.
    controller: int = -1
    rng: random.Random = field(repr=False)

    def leader(self) -> int:
        """The leader of some partition."""
        return self.rng.choice([each.leader_id for each in self._led()])

    def follower(self) -> int:
        """A follower of some partition, with as few leaders on it as there are."""
        leaders = [each.leader_id for each in self._led()]
        followers = sorted({node for each in self._led() for node in each.replica_nodes if node != each.leader_id})
        fewest = min(leaders.count(node) for node in followers)
        return self.rng.choice([node for node in followers if leaders.count(node) == fewest])

    def _led(self) -> list[MetadataResponsePartition]:
        return [each for _, each in sorted(self.view.newest().items()) if each.leader_id >= 0]


class Fault:
    """One kind. `strike` and `undo` block."""

    name: ClassVar[str]
    # Long enough for the rest to notice, sometimes (kills at once, silence only after the session timeout).
    hold_s: ClassVar[tuple[float, float]] = (0.2, 3.0)
    needs_nodes: ClassVar[int] = 1
    needs_controller: ClassVar[bool] = False

    def choose(self, target: Target) -> int:
        raise NotImplementedError

    def strike(self, port: FaultPort, node: int, target: Target) -> None:
        port.kill(node)

    def undo(self, port: FaultPort, node: int) -> None:
        port.start(node)


class KillLeader(Fault):
    name = "kill-leader"

    def choose(self, target: Target) -> int:
        return target.leader()


class KillFollower(Fault):
    name = "kill-follower"
    needs_nodes = 2

    def choose(self, target: Target) -> int:
        return target.follower()


class KillController(Fault):
    name = "kill-controller"
    needs_controller = True

    def choose(self, target: Target) -> int:
        return target.controller


class Pause(Fault):
    name = "pause"
    hold_s = (0.5, 12.0)

    def choose(self, target: Target) -> int:
        return target.rng.choice(target.nodes)

    def strike(self, port: FaultPort, node: int, target: Target) -> None:
        port.pause(node)

    def undo(self, port: FaultPort, node: int) -> None:
        port.resume(node)


class Isolate(Fault):
    """A leader that is cut off is the interesting one: clients still reach it."""

    name = "isolate"
    hold_s = (0.5, 12.0)
    needs_nodes = 2

    def choose(self, target: Target) -> int:
        return target.leader()

    def strike(self, port: FaultPort, node: int, target: Target) -> None:
        port.isolate(node, None)

    def undo(self, port: FaultPort, node: int) -> None:
        port.heal()


class OneWay(Isolate):
    """Bytes from some of the others stop; the node's own still arrive."""

    name = "one-way"

    def strike(self, port: FaultPort, node: int, target: Target) -> None:
        others = [other for other in target.nodes if other != node]
        port.isolate(node, sorted(target.rng.sample(others, target.rng.randint(1, len(others)))))


KINDS: Final[dict[str, type[Fault]]] = {
    kind.name: kind for kind in (KillLeader, KillFollower, KillController, Pause, Isolate, OneWay)
}
