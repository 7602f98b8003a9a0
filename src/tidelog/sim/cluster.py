"""Several whole nodes in one deterministic world: the code that ships, over simulated machines.

Nodes 1 to 3 are brokers and controllers, those above brokers only; with `controllers` given, brokers are only brokers
and that many nodes from 101 on are the quorum. Node N lives on host 10.0.0.N and listens on 9092 (clients and brokers)
and 9093 (controllers).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from tidelog.broker.event_log import log_event
from tidelog.broker.format import format_directories
from tidelog.broker.metadata_follower import PACE, Pace
from tidelog.broker.node import Node
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import Event
from tidelog.core.ids import random_uuid, uuid_to_text
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage
from tidelog.sim.links import Delay
from tidelog.sim.loop import VirtualLoop
from tidelog.sim.machine import Exit, Machine, NotRunning, Ports, State
from tidelog.sim.network import Network

T = TypeVar("T")

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
FIRST_CONTROLLER: Final = 101
MOST_COMBINED: Final = 3
LAN: Final = Delay(0.0001, 0.0004)
"""What packets take between machines of one room."""


def host_of(node_id: int) -> str:
    return f"10.0.0.{node_id}"


def roles_of(brokers: int, controllers: int = 0) -> dict[int, str]:
    """Who is what; see the module."""
    if controllers:
        quorum = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        return dict.fromkeys(range(1, brokers + 1), "broker") | dict.fromkeys(quorum, "controller")
    return {node_id: "broker,controller" if node_id <= MOST_COMBINED else "broker" for node_id in range(1, brokers + 1)}


def properties_of(node_id: int, roles: Mapping[int, str]) -> dict[str, str]:
    """The server.properties of one node of a cluster with a fixed quorum."""
    host, role = host_of(node_id), roles[node_id]
    voters = [other for other, its in roles.items() if "controller" in its]
    listeners = []
    if "broker" in role:
        listeners.append(f"PLAINTEXT://{host}:{CLIENT_PORT}")
    if "controller" in role:
        listeners.append(f"CONTROLLER://{host}:{CONTROLLER_PORT}")
    copies = str(min(3, sum("broker" in its for its in roles.values())))
    return {
        "node.id": str(node_id),
        "process.roles": role,
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(f"{voter}@{host_of(voter)}:{CONTROLLER_PORT}" for voter in voters),
        "log.dirs": "/data",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": copies,
    }


# Who published, what, and what it changed.
OnMetadata: TypeAlias = Callable[[int, ClusterImage, MetadataDelta], None]
# On which node, and what.
OnEvent: TypeAlias = Callable[[int, Event], None]
# How fast a process is that has just been started.
DrawPace: TypeAlias = Callable[[random.Random], Pace]


def fast(_: random.Random) -> Pace:
    """Metadata is applied and logs are loaded in no time."""
    return PACE


def fast_or_slow(rng: random.Random) -> Pace:
    """Or one thing at a time, with everything else happening in between."""
    return PACE if rng.random() < 0.5 else Pace(slice_s=-1.0, pause_s=rng.choice((0.0, rng.uniform(0.0, 0.02))))


class SimNode:
    """One node: its machine, its config, and the `Node` of its latest process."""

    def __init__(
        self,
        world: VirtualLoop,
        config: NodeConfig,
        seed: str,
        on_metadata: OnMetadata,
        on_event: OnEvent,
        pace: DrawPace,
    ) -> None:
        self.node_id: Final = config.node_id
        self.config = config
        self.machine: Final = Machine(world, host_of(config.node_id), seed)
        self.node: Node | None = None
        """The running node, from the moment it is built; None when no process runs."""
        self.serves = False
        """Whether the running node has started and was not asked to stop."""
        self.failures: list[BaseException] = []
        """Why its processes could not go on, of those that ended by themselves in order."""
        self._world = world
        self._on_metadata = on_metadata
        self._on_event = on_event
        self._pace = pace

    def start(self) -> asyncio.Future[None]:
        """Begins at once; the future is done when the node serves, and fails if its process ends before."""
        started: asyncio.Future[None] = self._world.create_future()
        ended = self.machine.start(lambda ports: self._serve(ports, started))
        ended.add_done_callback(lambda future: self._ended(started, future.result()))
        # Whoever does not wait for the start does not want to hear of its failure.
        started.add_done_callback(lambda future: future.exception())
        return started

    async def _serve(self, ports: Ports, started: asyncio.Future[None]) -> None:
        """What the program of a node does, as `tidelog node` does it."""
        node = self.node = Node(
            self.config,
            disk=ports.disk,
            wall_clock=ports.wall_clock,
            offload=ports.offload,
            rng=ports.rng,
            host_name=self.machine.host,
            on_event=lambda event: self._on_event(self.node_id, event),
            pace=self._pace(ports.rng),
        )
        watching = asyncio.ensure_future(self._watch(node))
        await node.start()
        await watching
        self.serves = True
        started.set_result(None)
        stopped = asyncio.ensure_future(ports.asked_to_stop.wait())
        failed = asyncio.ensure_future(node.failed.wait())
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        for waiter in (stopped, failed):
            waiter.cancel()
        self.serves = False
        await node.stop()
        if node._failure is not None and not ports.asked_to_stop.is_set():
            self.failures.append(node._failure)

    async def _watch(self, node: Node) -> None:
        """Onlookers hear of everything the node publishes, from the moment it has anything to publish."""
        while node.control is None:
            await asyncio.sleep(0)
        node.control.publisher.subscribe(lambda image, delta: self._on_metadata(self.node_id, image, delta))

    def _ended(self, started: asyncio.Future[None], end: Exit) -> None:
        self.node = None
        self.serves = False
        if not started.done():
            error = NotRunning(f"node {self.node_id} was {end.end.value} while it started: {end.error}")
            error.__cause__ = end.error
            started.set_exception(error)


class SimCluster:
    """The nodes, their world, and what can be done to them. Everything follows from `seed`.

    Waiting for a node is done with futures of the world: from a coroutine that `run` runs, not from a node's code.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        seed: int = 0,
        properties: Mapping[str, str] | None = None,
        roles: Mapping[int, str] | None = None,
        delay: Delay | None = LAN,
        pace: DrawPace = fast,
    ) -> None:
        rng = random.Random(f"{seed} cluster")
        self.network: Final = Network(delay=delay, seed=f"{seed} network")
        self.loop: Final = VirtualLoop(network=self.network)
        self.roles: Final = dict(roles or roles_of(brokers, controllers))
        self.cluster_id: Final = uuid_to_text(random_uuid(rng))
        self.on_metadata: OnMetadata | None = None
        """Hears of every committed batch of metadata, from every node as it publishes it."""
        self.on_event: OnEvent | None = None
        """Hears of everything that nodes tell of; their logs have it in any case."""
        self.nodes: Final[dict[int, SimNode]] = {}
        for node_id in self.roles:
            config, _ = NodeConfig.parse(properties_of(node_id, self.roles) | dict(properties or {}))
            self.nodes[node_id] = SimNode(
                self.loop, config, f"{seed} node {node_id}", self._published, self._told, pace
            )
            self._format(node_id)

    def _format(self, node_id: int) -> None:
        node = self.nodes[node_id]
        machine = node.machine
        format_directories(machine.disk, node.config, self.cluster_id, machine.rng, machine.clock.now_ms())
        machine.disk.settle()

    def _published(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        if self.on_metadata is not None:
            self.on_metadata(node_id, image, delta)

    def _told(self, node_id: int, event: Event) -> None:
        log_event(event)
        if self.on_event is not None:
            self.on_event(node_id, event)

    # --- running the world --------------------------------------------------------------------------------------------

    def run(self, story: Awaitable[T]) -> T:
        return self.loop.run_until_complete(story)

    def run_for(self, seconds: float) -> None:
        self.loop.run_for(seconds)

    async def until(self, holds: Callable[[], object], *, timeout_s: float = 30.0, every_s: float = 0.01) -> None:
        """Lets virtual time pass until something holds; it is looked at now and then, as an onlooker would."""
        deadline = self.loop.time() + timeout_s
        while not holds():
            if self.loop.time() >= deadline:
                raise TimeoutError(f"the condition did not hold within {timeout_s:g} s of virtual time")
            await asyncio.sleep(every_s)

    def close(self) -> None:
        """Kills what still runs, cancels what the world still waits for, and lets go of it all."""
        for node in self.nodes.values():
            node.machine.close()
        left = sorted(asyncio.all_tasks(self.loop), key=lambda task: task.get_name())
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.close()

    def __enter__(self) -> "SimCluster":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- one node -----------------------------------------------------------------------------------------------------

    def machine(self, node_id: int) -> Machine:
        return self.nodes[node_id].machine

    def node(self, node_id: int) -> Node:
        """The running `Node`."""
        found = self.nodes[node_id].node
        if found is None:
            raise NotRunning(f"node {node_id} is not running")
        return found

    def is_running(self, node_id: int) -> bool:
        return self.machine(node_id).state is not State.OFF

    def start(self, node_id: int) -> asyncio.Future[None]:
        """Also after a stop, kill or power cut. Await it to know that the node serves."""
        return self.nodes[node_id].start()

    async def start_all(self) -> None:
        await asyncio.gather(*(self.start(node_id) for node_id in self.nodes if not self.is_running(node_id)))

    async def stop(self, node_id: int) -> Exit:
        """In order. Returns when the process has ended."""
        machine = self.machine(node_id)
        ended = machine.ended()
        machine.ask_to_stop()
        return await ended

    async def stop_all(self) -> None:
        running = [node_id for node_id in self.nodes if self.is_running(node_id)]
        await asyncio.gather(*(self.stop(node_id) for node_id in running))

    def kill(self, node_id: int) -> None:
        self.machine(node_id).kill()

    def power_cut(self, node_id: int, *, lose_entries: bool = True) -> None:
        self.machine(node_id).power_cut(lose_entries=lose_entries)

    def pause(self, node_id: int) -> None:
        self.machine(node_id).pause()

    def resume(self, node_id: int) -> None:
        self.machine(node_id).resume()

    async def restart(self, node_id: int) -> None:
        """In order if it runs; starts it anyway."""
        if self.is_running(node_id):
            await self.stop(node_id)
        await self.start(node_id)

    def wipe(self, node_id: int, directory: str | None = None) -> None:
        """A new, empty disk, formatted as for a new node; or only one directory of it. The process must be gone."""
        machine = self.machine(node_id)
        if directory is None:
            machine.new_disk()
        else:
            assert machine.state is State.OFF
            machine.disk.remove_tree(directory)
        self._format(node_id)

    def call(self, node_id: int, work: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        """Runs it inside the node's process."""
        return self.machine(node_id).call(work)

    def bootstrap(self, nodes: Sequence[int] | None = None) -> list[tuple[str, int]]:
        """Where clients connect."""
        chosen = nodes or [node_id for node_id, role in self.roles.items() if "broker" in role]
        return [(host_of(node_id), CLIENT_PORT) for node_id in chosen]

    def unhandled(self) -> list[str]:
        """What no code caught, in any process that runs or has ended by itself: must be empty."""
        found: list[str] = []
        for node_id, node in self.nodes.items():
            told: list[Any] = [*(message for end in node.machine.exits for message in end.unhandled)]
            if node.machine.state is not State.OFF:
                told += node.machine.ports.loop.unhandled
            found += [f"node {node_id}: {message}" for message in told]
        return found
