"""What faults see of the cluster and do to it: who can be struck, who is struck already, who may lose data."""

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, PartitionRegistration, TopicImage
from tidelog.sim.cluster import SimCluster, host_of
from tidelog.sim.faults.budget import Budget
from tidelog.sim.links import Cut
from tidelog.sim.machine import State

RECKLESS: Final = 0.25
"""How often a fault strikes although as many nodes are struck as the cluster can do without."""
RUTHLESS: Final = 0.05
"""How often a process is killed although its log is the last of a partition that can be trusted."""

STORY_S: Final = 6.0
"""A fault of several steps is over by then."""

# Its steps.
Story: TypeAlias = Coroutine[Any, Any, None]


class Moment:
    """What a fault waits for: a trap that springs, a request that is granted, a step that hurts. It may never come."""

    def __init__(self) -> None:
        self.came = False
        self._what: dict[str, Any] = {}
        self._then: Callable[[dict[str, Any]], None] | None = None

    def come(self, **what: Any) -> None:
        """It is here, with what is known only now; a second time means nothing."""
        if not self.came:
            self.came, self._what = True, what
            if self._then is not None:
                self._then(what)

    def then(self, do: Callable[[dict[str, Any]], None]) -> None:
        self._then = do
        if self.came:
            do(self._what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A fault that struck: what a trace says of it, whom it disturbs for how long, and how it ends.

    With a moment it is only armed, and strikes when that comes, if it does before the end.
    """

    what: dict[str, Any]
    nodes: tuple[int, ...] = ()
    lasts_s: float = 0.0
    end: Callable[[], None] | None = None
    moment: Moment | None = None


@dataclass(slots=True, eq=False)
class Field:
    """See the module. Sorted wherever an order could reach a draw."""

    cluster: SimCluster
    budget: Budget
    image: ClusterImage = EMPTY_IMAGE
    disturbed: dict[int, int] = field(default_factory=dict)
    """How many faults disturb a node now."""
    held_down: dict[int, int] = field(default_factory=dict)
    """Nodes that nobody starts until the fault that took them down ends."""
    bouncing: dict[int, None] = field(default_factory=dict)
    """Nodes that are asked to stop in order to be started anew."""
    stories: list[asyncio.Task[None]] = field(default_factory=list)
    """Of faults of several steps, also those that are over."""
    misreading: int = 0
    """How many disks may read something else than was written there."""
    misread_s: float = -math.inf
    """When the last of them was repaired."""
    on_start: Callable[[int], None] = lambda node_id: None
    tell: Callable[..., None] = lambda event, **fields: None
    ask_broker: Callable[[int, Any, Moment | None], None] = lambda node_id, request, accepted: None

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self) -> ClusterImage:
        """The newest committed metadata any running node knows; what was seen before if none runs."""
        for node_id in self.cluster.nodes:
            node = self.cluster.nodes[node_id].node
            if node is not None and node.control is not None:
                seen = node.control.image
                if seen.provenance.offset >= self.image.provenance.offset:
                    self.image = seen
        return self.image

    def running(self) -> list[int]:
        return [node_id for node_id in self.cluster.nodes if self.state(node_id) is State.RUNNING]

    def state(self, node_id: int) -> State:
        return self.cluster.machine(node_id).state

    def brokers(self) -> list[int]:
        return [node_id for node_id, role in self.cluster.roles.items() if "broker" in role]

    def voters(self) -> list[int]:
        return [node_id for node_id, role in self.cluster.roles.items() if "controller" in role]

    def active_controller(self) -> int | None:
        for node_id in self.running():
            node = self.cluster.nodes[node_id].node
            control = None if node is None else node.control
            if control is not None and control.controller is not None and control.controller.is_active:
                return node_id
        return None

    def partitions(self) -> list[tuple[TopicImage, int, PartitionRegistration]]:
        image = self.look()
        topics = sorted(image.topics_by_id.values(), key=lambda topic: topic.name)
        return [(topic, index, topic.partitions[index]) for topic in topics for index in sorted(topic.partitions)]

    # --- choosing -----------------------------------------------------------------------------------------------------

    def pick(self, rng: random.Random, among: Iterable[int] | None = None) -> int | None:
        """A running node that no fault disturbs; seldom one more than the cluster can do without."""
        nodes = self.running() if among is None else [n for n in among if self.state(n) is State.RUNNING]
        free = [node_id for node_id in nodes if node_id not in self.disturbed]
        reckless = rng.random() < RECKLESS
        spared = len(self.cluster.nodes) - (len(self.cluster.nodes) - 1) // 2
        if not free or (len(self.cluster.nodes) - len(self.disturbed) <= spared and not reckless):
            return None
        return rng.choice(free)

    def pick_to_kill(self, rng: random.Random, among: Iterable[int] | None = None) -> int | None:
        """The same for an end without order: seldom of the last replica whose log can be trusted."""
        node_id = self.pick(rng, among)
        if node_id is None or (self.budget.leaves_nobody(node_id, self.look()) and rng.random() >= RUTHLESS):
            return None
        return node_id

    def can_spare(self, node_id: int) -> bool:
        """Whether a trap may take this node down now, that was set when nobody knew on whom it would spring."""
        return not self.budget.leaves_nobody(node_id, self.look())

    def hosts(self, nodes: Iterable[int]) -> list[str]:
        return [host_of(node_id) for node_id in nodes]

    # --- doing --------------------------------------------------------------------------------------------------------

    def cut(self, cut: Cut, nodes: Iterable[int], lasts_s: float) -> Applied:
        network = self.cluster.network
        network.apply(cut)

        def heal() -> None:
            if cut in network.cuts:
                network.heal(cut)

        return Applied(what={"cut": cut.name}, nodes=tuple(nodes), lasts_s=lasts_s, end=heal)

    def hold_down(self, node_id: int) -> None:
        self.held_down[node_id] = self.held_down.get(node_id, 0) + 1

    def let_up(self, node_id: int) -> None:
        """The fault that took the node down is over: it is started."""
        left = self.held_down.get(node_id, 0) - 1
        if left > 0:
            self.held_down[node_id] = left
            return
        self.held_down.pop(node_id, None)
        self.start(node_id)

    def start(self, node_id: int) -> None:
        if self.state(node_id) is State.OFF and node_id not in self.held_down:
            self.bouncing.pop(node_id, None)
            self.tell("start", node=node_id)
            self.cluster.start(node_id)
            self.on_start(node_id)

    def bounce(self, node_id: int) -> None:
        """The node is asked to stop; whoever supervises it starts it again."""
        if self.state(node_id) is not State.OFF:
            self.bouncing[node_id] = None
            self.cluster.machine(node_id).ask_to_stop()

    def ask(self, rng: random.Random, request: Any, accepted: Moment | None = None) -> None:
        """An administrator asks one of the brokers that run, if any, and waits for nothing."""
        running = [node_id for node_id in self.brokers() if self.state(node_id) is State.RUNNING]
        if running:
            self.ask_broker(rng.choice(running), request, accepted)

    def tell_story(
        self,
        story: Story,
        clean_up: Callable[[], None],
        moment: Moment,
        *,
        what: dict[str, Any],
        nodes: tuple[int, ...] = (),
    ) -> Applied:
        """For a fault of several steps: it goes on by itself, and ends where it is when its time is over."""
        task = self.cluster.loop.create_task(story, name="fault")
        self.stories.append(task)

        def end() -> None:
            task.cancel()
            clean_up()

        return Applied(what=what, nodes=nodes, lasts_s=STORY_S, end=end, moment=moment)

    def down(self, node_id: int, lasts_s: float, **what: Any) -> Applied:
        """For a fault that has taken the node down: it is started again when the fault is over."""
        self.hold_down(node_id)
        return Applied(
            what={"node": node_id} | what, nodes=(node_id,), lasts_s=lasts_s, end=lambda: self.let_up(node_id)
        )
