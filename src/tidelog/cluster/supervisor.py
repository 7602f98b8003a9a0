"""Starts, watches, kills, stops, pauses and resumes the nodes of one prepared cluster."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog.cluster.errors import ClusterError
from tidelog.cluster.links import LinkWish, LinkWishes
from tidelog.cluster.node import STOP_TIMEOUT_S, SupervisedNode
from tidelog.cluster.nursery import Nursery, OwnProcess
from tidelog.cluster.plan import ClusterRequest, PreparedCluster, prepare
from tidelog.cluster.readiness import READY_TIMEOUT_S, Probe, probe_cluster, wait_ready
from tidelog.cluster.states import NodeState, NodeStatus
from tidelog.cluster.template import FromTemplate

_UNCLEAN: Final = "did not stop within {seconds:g} s, so it was killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """A node changed its state; `detail` says why it is worth telling, if it is."""

    node_id: int
    state: NodeState
    detail: str = ""


OnEvent = Callable[[NodeEvent], None]


def ignore_events(_: NodeEvent) -> None:
    """For who does not want to know."""


class Supervisor:
    """The nodes of one cluster. Lives on one event loop, whose thread must outlive the nodes."""

    def __init__(
        self,
        prepared: PreparedCluster,
        request: ClusterRequest,
        *,
        nursery: Nursery | None = None,
        on_event: OnEvent = ignore_events,
        probe: Probe = probe_cluster,
    ) -> None:
        self.directory = prepared.directory
        self.layout = prepared.layout
        self.page = prepared.page
        self._prepared = prepared
        self._nursery = nursery
        self._on_event = on_event
        self._probe = probe
        # Until then no client may rely on the cluster, and a start that fails takes back what it has created.
        self._has_served = False
        self._links = LinkWishes([node.id for node in self.layout.nodes])
        # Set whenever a node's state or links have changed.
        self.watchers: set[asyncio.Event] = set()
        self._nodes = {
            node.id: SupervisedNode(
                node,
                request.node_command(self.directory.properties(node.id)),
                self.directory.node_dir(node.id),
                dies_with_us=request.dies_with_us,
                nursery=nursery,
                wish=partial(self._links.of, node.id),
                on_change=self._changed,
            )
            for node in self.layout.nodes
        }
        # Nodes that cannot serve before others are back, or that were too slow: whoever started them does not wait.
        self._later: set[asyncio.Task[None]] = set()

    @classmethod
    async def create(
        cls, request: ClusterRequest, *, on_event: OnEvent = ignore_events, probe: Probe = probe_cluster
    ) -> "Supervisor":
        nursery: Nursery | None = None
        if request.by_nursery:
            assert request.dies_with_us or not request.shares_template, "a template ends with this process"
            breeder = FromTemplate() if request.shares_template else OwnProcess(tied=request.dies_with_us)
            nursery = Nursery(tied=request.dies_with_us, breeder=breeder)
            # It imports while ports are chosen.
            nursery.start()
        try:
            prepared = await prepare(request, nursery)
        except BaseException:
            if nursery is not None:
                nursery.kill()
                await nursery.close()
            raise
        return cls(prepared, request, nursery=nursery, on_event=on_event, probe=probe)

    @property
    def bootstrap(self) -> str:
        return self.layout.bootstrap

    def status(self) -> list[NodeStatus]:
        return [node.status() for node in self._nodes.values()]

    def links(self, node_id: int) -> LinkWish:
        return self._links.of(node_id)

    def node(self, node_id: int) -> SupervisedNode:
        self.layout.node(node_id)
        return self._nodes[node_id]

    async def start_all(self, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Starts every node, waits until all of them serve as one cluster, and has the page served."""
        nodes = list(self._nodes.values())
        for node in nodes:
            await node.start()
        await self._until_ready(nodes, timeout_s)
        if self.page is not None:
            self.page.start(self.directory)

    async def start(self, node_id: int, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Starts one node and waits until it serves; brokers that are down meanwhile do not matter.

        Without a majority of controllers nobody serves: then it is `starting` until enough of the others are back.
        """
        node = self.node(node_id)
        await node.start()
        if not self.has_majority:
            self._mark_later(node)
            return
        try:
            await self._until_ready([node], timeout_s)
        except ClusterError:
            if node.alive:
                self._mark_later(node)
            raise

    @property
    def has_majority(self) -> bool:
        """Whether enough of the controllers that we started run to elect one of them."""
        controllers = [self._nodes[node.id] for node in self.layout.controllers]
        running = [node for node in controllers if node.state in (NodeState.STARTING, NodeState.RUNNING)]
        return len(running) > len(controllers) // 2

    async def kill(self, node_id: int) -> None:
        await self.node(node_id).kill()

    async def stop(self, node_id: int, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """An orderly stop; an error when the node had to be killed, since then it was none."""
        if not await self.node(node_id).stop(timeout_s):
            raise ClusterError(f"node {node_id} " + _UNCLEAN.format(seconds=timeout_s))

    def pause(self, node_id: int) -> None:
        self.node(node_id).pause()

    def resume(self, node_id: int) -> None:
        self.node(node_id).resume()

    # --- between nodes ---

    async def isolate(self, node_id: int, from_nodes: Sequence[int] | None = None) -> None:
        """Silently cuts a node off from the others, both ways; with `from_nodes`, it only does not hear these."""
        node = self.node(node_id)
        self._links.isolate(node_id, from_nodes)
        self.tell_watchers()
        await node.tell_links()

    async def slow(self, node_id: int, delay_ms: int) -> None:
        """What a node says to the others arrives so much later; 0 ends it."""
        node = self.node(node_id)
        self._links.slow(node_id, delay_ms)
        self.tell_watchers()
        await node.tell_links()

    async def heal(self) -> None:
        """Ends every `isolate` and `slow`."""
        self._links.heal()
        self.tell_watchers()
        await asyncio.gather(*(node.tell_links() for node in self._nodes.values()))

    # --- all of them ---

    async def stop_all(self, *, timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """Stops what runs, all at once; returns the nodes that had to be killed."""
        alive = [node for node in self._nodes.values() if node.alive]
        clean = await asyncio.gather(*(node.stop(timeout_s) for node in alive))
        await self._end_nursery()
        return [node.id for node, was_clean in zip(alive, clean, strict=True) if not was_clean]

    async def kill_all(self) -> None:
        await asyncio.gather(*(node.kill() for node in self._nodes.values() if node.alive))
        await self._end_nursery()

    async def close(self) -> None:
        """Ends the page and lets go of ports and directory. No node may run any more."""
        assert not any(node.alive for node in self._nodes.values()), "a node still runs"
        for task in self._later:
            task.cancel()
        if self.page is not None:
            await self.page.stop()
        self._prepared.release(undo=not self._has_served)

    async def _end_nursery(self) -> None:
        """Nobody is left to look after; should a node be started again, so is the nursery."""
        if self._nursery is not None:
            await self._nursery.close()

    async def _until_ready(self, nodes: Sequence[SupervisedNode], timeout_s: float) -> None:
        def still_alive() -> None:
            for node in nodes:
                if not node.alive:
                    status = 2 if node.exit_status == 2 else 1
                    raise ClusterError(self._story(node), status=status)

        async def all_may_serve() -> None:
            for node in nodes:
                await node.may_serve.wait()

        await wait_ready(
            [node.layout for node in nodes],
            still_alive=still_alive,
            all_may_serve=all_may_serve,
            probe=self._probe,
            timeout_s=timeout_s,
        )
        self._has_served = True
        self._prepared.keep_layout()
        for node in nodes:
            node.mark_running()

    def _story(self, node: SupervisedNode) -> str:
        """Why a node ended, and where more is written if that file is going to stay."""
        stays = self._has_served or self._prepared.created is None
        return node.story() + (f" (see {self.directory.console(node.id)})" if stays else "")

    def _mark_later(self, node: SupervisedNode) -> None:
        """Nobody waits for a node that may yet serve; `status` is to say so when it does."""
        later = asyncio.create_task(self._ready_later(node), name=f"ready-{node.id}")
        self._later.add(later)
        later.add_done_callback(self._later.discard)

    async def _ready_later(self, node: SupervisedNode) -> None:
        try:
            await self._until_ready([node], math.inf)
        except ClusterError as error:
            # Killed or stopped meanwhile: somebody asked for that.
            if node.state is NodeState.CRASHED:
                self._on_event(NodeEvent(node_id=node.id, state=node.state, detail=error.message))

    def tell_watchers(self) -> None:
        """There is something new to see."""
        for watcher in self.watchers:
            watcher.set()

    def _changed(self, node: SupervisedNode, old: NodeState) -> None:
        self.tell_watchers()
        detail = ""
        # A node that never came up is told by whoever waits for it.
        if node.state is NodeState.CRASHED and old is not NodeState.STARTING:
            detail = self._story(node)
        self._on_event(NodeEvent(node_id=node.id, state=node.state, detail=detail))
