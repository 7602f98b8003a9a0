"""Fetches for the partitions that this broker follows: one task per leader, while there is something to fetch from it.

A second one for the same leader begins when several partitions are far behind: half of them get a fetcher of their own,
and while the answer to one is checked and written, that to the other is on its way. They stay with it until they follow
somebody else.

Thin: what to ask and what to make of the answer is `replication/fetcher.py`'s. A task sleeps in a request that the
leader holds until there is news, or until its fetcher is due again; assignments wake it. Appends run on the event loop,
since they go to the page cache and nothing may come between an answer's check and its append; the fsyncs of a rare cut
do, too.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from tidelog.broker.endpoints import endpoint_of
from tidelog.broker.logging_setup import BoundedLog
from tidelog.client.addresses import Address
from tidelog.client.errors import ClientError, ConnectionRefused
from tidelog.client.tasks import ended
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import EventSink
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.core.ports import WallClock
from tidelog.metadata.image import ClusterImage
from tidelog.replication.fetcher import ASSIGNING_S, SHORT_WAIT_MS, Fetcher, FetcherConfig, Request
from tidelog.replication.fetcher_state import Followed
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.wire.errors import ApiError, WireError
from tidelog.wire.messages.fetch import FetchRequest

log = logging.getLogger("tidelog.replication")

# One connection each: of the fetcher that every leader has, and of the one for partitions that are far behind.
LANES: Final = ("replication", "replication-behind")
# A leader may hold a fetch for `replica.fetch.wait.max.ms`, and what is assigned meanwhile would wait for that, and
# with it every acks=all write. After this long the held fetch is given up, and its connection.
HURRY_S: Final = 0.02
# The fetch that follows names every partition, so it is done once in a row of assignments, and with thousands of
# partitions not sooner than after this long for each of them. From then on fetches are short (`fetcher.SHORT_WAIT_MS`).
HURRY_A_PARTITION_S: Final = 0.0002
# A due time that has just passed must not spin the loop.
MIN_SLEEP_S: Final = 0.001


class ReplicaPeers(Protocol):
    """What is needed of `broker.peers.Peers`. `drop` closes every connection to the node: fetchers want their own."""

    async def request(
        self, node: int, request: Any, *, lane: str = "", version: int | None = None, timeout_s: float
    ) -> Any: ...

    def drop(self, node: int, lane: str | None = None) -> None: ...


class Home(NamedTuple):
    """Who fetches a partition: one of the fetchers of its leader."""

    leader_id: BrokerId
    lane: int


def replication_address(image: ClusterImage, node_id: int, listener_name: str) -> Address | None:
    """Where a broker is fetched from: its endpoint of the listener `inter.broker.listener.name`."""
    endpoint = endpoint_of(image, node_id, listener_name)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


class ReplicaFetchers:
    """`replication.manager.Fetchers`. Invariant: a partition is followed from at most one leader, in one epoch."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        peers: ReplicaPeers,
        config: NodeConfig,
        *,
        broker_epoch: Callable[[], int],
        wall_clock: WallClock,
        on_event: EventSink = lambda event: None,
        on_contact: Callable[[int, bool], None] = lambda leader_id, refused: None,
    ) -> None:
        self._loop = loop
        # Told of every leader that answered, or refused the connection.
        self._on_contact = on_contact
        self._peers = peers
        self._config = config
        self._broker_epoch = broker_epoch
        self._wall_clock = wall_clock
        self._on_event = on_event
        self._throttle = ReplicationThrottle(
            BrokerId(config.node_id), config.follower_replication_throttled_rate, loop.time()
        )
        self._problems = BoundedLog(log, loop.time)
        self._running: dict[Home, _FromLeader] = {}
        self._homes: dict[TopicPartition, Home] = {}
        # Cancelled, and not yet gone: held here because the event loop holds tasks only weakly.
        self._ending: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def assign(
        self, topic_partition: TopicPartition, partition: Partition, leader_id: BrokerId, leader_epoch: LeaderEpoch
    ) -> None:
        """Follows `leader_id` from now on. To be called for every new leader epoch, also if the leader is the same."""
        if self._closed:
            return
        home = self._homes.get(topic_partition)
        if home is None or home.leader_id != leader_id:
            self.remove(topic_partition)
            home = Home(leader_id, 0)
        self._assign(topic_partition, partition, home, leader_epoch).hurry()

    def _assign(
        self, topic_partition: TopicPartition, partition: Partition, home: Home, leader_epoch: LeaderEpoch
    ) -> "_FromLeader":
        running = self._running.get(home)
        if running is None:
            running = self._running[home] = self._start(home)
        for event in running.fetcher.assign(partition, leader_epoch, self._wall_clock.now_ms()):
            self._on_event(event)
        self._homes[topic_partition] = home
        running.assigned.add(topic_partition)
        return running

    def _share(self, home: Home, filled: list[Followed]) -> None:
        """Called when an answer has been used and the next request is not made yet: no partition is asked for twice."""
        if home.lane != 0 or len(filled) < 2:
            return
        second = Home(home.leader_id, 1)
        other = self._running.get(second)
        # Until both have as many: whoever stays is filled by the next answer again.
        more = (len(filled) - (0 if other is None else other.fetcher.count_behind())) // 2
        for followed in filled[len(filled) - max(more, 0) :]:
            topic_partition = followed.partition.topic_partition
            if self._homes.get(topic_partition) == home:
                self.remove(topic_partition)
                # Not in a hurry: what the second one fetches meanwhile is as much behind.
                self._assign(topic_partition, followed.partition, second, followed.leader_epoch).wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        home = self._homes.pop(topic_partition, None)
        if home is None:
            return
        running = self._running[home]
        running.fetcher.remove(topic_partition)
        running.assigned.discard(topic_partition)
        if not running.assigned:
            del self._running[home]
            self._end(running)

    def apply_config(self, config: NodeConfig) -> None:
        """What may change while the node runs."""
        self._config = config
        self._throttle.set_rate(config.follower_replication_throttled_rate, self._loop.time())
        for running in self._running.values():
            running.fetcher.config = FetcherConfig.of(config)
            running.wake()

    def max_lag(self) -> int:
        """The largest number of committed records that a followed partition lacks (ReplicaFetcherManager's MaxLag)."""
        return max((running.fetcher.max_lag() for running in self._running.values()), default=0)

    async def close(self) -> None:
        """Ends every task and waits for them; assignments that still come are not followed."""
        self._closed = True
        for running in self._running.values():
            self._end(running)
        self._running.clear()
        self._homes.clear()
        await ended(self._ending)

    def _start(self, home: Home) -> "_FromLeader":
        fetcher = Fetcher(
            BrokerId(self._config.node_id),
            home.leader_id,
            self._broker_epoch(),
            FetcherConfig.of(self._config),
            self._throttle,
        )
        return _FromLeader(
            self._loop,
            fetcher,
            self._peers,
            lambda: self._config.replica_socket_timeout_ms / 1000,
            self._wall_clock,
            self._on_event,
            self._on_contact,
            self._problems,
            LANES[home.lane],
            lambda filled: self._share(home, filled),
        )

    def _end(self, running: "_FromLeader") -> None:
        self._ending[running.task] = None
        running.task.add_done_callback(self._ending.pop)
        running.end()


class _FromLeader:
    """A task that fetches from one leader."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fetcher: Fetcher,
        peers: ReplicaPeers,
        timeout_s: Callable[[], float],
        wall_clock: WallClock,
        on_event: EventSink,
        on_contact: Callable[[int, bool], None],
        problems: BoundedLog,
        lane: str,
        share: Callable[[list[Followed]], None],
    ) -> None:
        self.fetcher = fetcher
        # Also those whose log failed, which the fetcher has let go.
        self.assigned: set[TopicPartition] = set()
        self._loop = loop
        self._peers = peers
        self._timeout_s = timeout_s
        self._wall_clock = wall_clock
        self._on_event = on_event
        self._on_contact = on_contact
        self._problems = problems
        self._lane = lane
        self._share = share
        self._awake = asyncio.Event()
        self._hurrying: asyncio.TimerHandle | None = None
        self.task = loop.create_task(self._run(), name=f"fetch-from-{fetcher.leader_id}")

    def wake(self) -> None:
        self._awake.set()

    def hurry(self) -> None:
        """There is something new to ask, and more may follow."""
        self._awake.set()
        self.fetcher.short_until_s = self._loop.time() + ASSIGNING_S
        held = self.fetcher.in_flight
        if isinstance(held, FetchRequest) and held.max_wait_ms > SHORT_WAIT_MS and self._hurrying is None:
            delay_s = max(HURRY_S, HURRY_A_PARTITION_S * len(self.fetcher))
            self._hurrying = self._loop.call_later(delay_s, self._give_up, held)

    def _give_up(self, held: Request) -> None:
        self._hurrying = None
        if held is self.fetcher.in_flight:
            self.fetcher.abandon(held)
            # Its answer would come before any other on this connection.
            self._peers.drop(self.fetcher.leader_id, self._lane)

    def end(self) -> None:
        self._stop_hurrying()
        self.task.cancel()
        if self.fetcher.in_flight is not None:
            self._peers.drop(self.fetcher.leader_id, self._lane)

    async def _run(self) -> None:
        while True:
            self._awake.clear()
            request = self.fetcher.build_request(self._loop.time())
            if request is None:
                await self._sleep()
                continue
            try:
                await self._exchange(request)
            except Exception:
                # Whatever it was: without this task nothing would be replicated from this leader any more.
                log.exception("fetching from leader %d failed; retrying", self.fetcher.leader_id)
                self.fetcher.on_failure(request, self._loop.time())
            self._stop_hurrying()

    def _stop_hurrying(self) -> None:
        """What was held is over. Who comes while the next one is held hurries that one."""
        if self._hurrying is not None:
            self._hurrying.cancel()
            self._hurrying = None

    async def _sleep(self) -> None:
        now_s = self._loop.time()
        due_s = self.fetcher.next_due_s(now_s)
        if due_s is None or due_s == float("inf"):
            await self._awake.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(max(due_s - now_s, MIN_SLEEP_S)):
                await self._awake.wait()

    async def _exchange(self, request: Request) -> None:
        fetcher = self.fetcher
        try:
            response = await self._peers.request(
                fetcher.leader_id, request, lane=self._lane, timeout_s=self._timeout_s()
            )
        except (ClientError, ApiError, WireError) as error:
            if isinstance(error, ConnectionRefused):
                self._on_contact(fetcher.leader_id, True)
            if request is fetcher.in_flight:
                fetcher.on_failure(request, self._loop.time())
                self._problems.warning(f"no answer from leader {fetcher.leader_id}: {error}")
            return
        self._on_contact(fetcher.leader_id, False)
        outcome = fetcher.on_response(request, response, self._loop.time(), self._wall_clock.now_ms())
        for event in outcome.events:
            self._on_event(event)
        for problem in outcome.problems:
            self._problems.warning(problem)
        self._share(outcome.filled)
