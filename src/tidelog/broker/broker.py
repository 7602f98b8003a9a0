"""What the handlers of a broker have at hand: one object, built by `node.py`, passed to every handler."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinatorService
from tidelog.broker.logging_setup import BoundedLog
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.traffic import Traffic
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import NO_LEADER, BrokerId
from tidelog.core.ports import Offload, WallClock
from tidelog.core.purgatory import Purgatory
from tidelog.metadata.image import ClusterImage
from tidelog.replication.manager import ReplicaManager
from tidelog.storage.manager import LogManager

log = logging.getLogger("tidelog.broker")


class ControllerChannel(Protocol):
    """The way to the active controller: a request in, its response out. In this process, or over the wire."""

    async def send(self, request: Any, *, timeout_ms: int = ...) -> Any: ...


@dataclass(slots=True, kw_only=True)
class Broker:
    """Services of one broker. `image` is the metadata as far as this broker has replayed it (Q7)."""

    node_id: BrokerId
    cluster_id: str
    config: NodeConfig
    loop: asyncio.AbstractEventLoop
    rng: random.Random
    wall_clock: WallClock
    offload: Offload
    logs: LogManager
    replicas: ReplicaManager
    controller: ControllerChannel
    groups: GroupCoordinatorService
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    produce_purgatory: Purgatory
    fetch_purgatory: Purgatory
    image: ClusterImage
    traffic: Traffic = field(default_factory=Traffic)
    # Brokers that refused a connection of ours, each until when that counts: nobody listens there, whatever the
    # metadata still says.
    refusing: dict[int, float] = field(default_factory=dict)
    # Brokers that were fenced a moment ago, each until when clients still hear its address.
    fenced_until: dict[int, float] = field(default_factory=dict)
    # Work that answers a request later; held here because the event loop holds tasks only weakly.
    background: set[asyncio.Task[None]] = field(default_factory=set)
    # Clients ask again many times a second for what cannot be made.
    not_created: BoundedLog = field(init=False)

    def __post_init__(self) -> None:
        self.not_created = BoundedLog(log, self.loop.time, burst=3, period_s=60.0)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def was_just_fenced(self, node_id: int) -> bool:
        """By itself or the controller, and not registered anew since."""
        until_s = self.fenced_until.get(node_id)
        return until_s is not None and self.loop.time() < until_s

    def is_refusing(self, node_id: int) -> bool:
        until_s = self.refusing.get(node_id)
        return until_s is not None and self.loop.time() < until_s

    @property
    def controller_id(self) -> int:
        """Whom clients should send controller requests to: any live broker passes them on (KIP-590), so this one."""
        registered = self.image.brokers.get(self.node_id)
        return NO_LEADER if registered is None or registered.fenced else self.node_id
