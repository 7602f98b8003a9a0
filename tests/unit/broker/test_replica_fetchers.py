"""The tasks that fetch: one per leader, woken by what happens, gone with their partitions."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.broker.virtual_node import PROPERTIES, VirtualClock, on_virtual_time
from tests.unit.replication.replica_kit import (
    TP,
    ToyLeader,
    contents,
    follow,
    follower_of,
    new_disk,
    open_log,
    write,
)

from tidelog.broker.replica_fetchers import HURRY_S, LANES, ReplicaFetchers, replication_address
from tidelog.client.addresses import Address
from tidelog.client.errors import ConnectionFailed, ConnectionRefused
from tidelog.core.config.node import NodeConfig
from tidelog.core.event import Event
from tidelog.core.events import LogTruncated
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.metadata.image import EMPTY_IMAGE, BrokerRegistration, EndpointInfo
from tidelog.replication.fetcher import ASSIGNING_S, SHORT_WAIT_MS
from tidelog.storage.log import Log
from tidelog.wire.messages.fetch import FetchRequest

OTHER = TopicPartition("orders", 1)
ONE, THREE = BrokerId(1), BrokerId(3)


class ToyPeers:
    """Leaders that hold a fetch until there is news, or `max_wait_ms` are over."""

    def __init__(self, leaders: dict[int, ToyLeader]) -> None:
        self.leaders = leaders
        self.news = asyncio.Event()
        self.asked: list[tuple[int, Any]] = []
        self.asked_by: list[tuple[str, Any]] = []
        self.dropped: list[int] = []
        self.refuses: set[int] = set()
        self._held: dict[tuple[int, str], asyncio.Future[None]] = {}
        # Each connection has a session of its own.
        self._sessions: dict[tuple[int, str], ToyLeader] = {}

    def _leader(self, node: int, lane: str) -> ToyLeader:
        known = self._sessions.setdefault((node, lane), replace(self.leaders[node]))
        known.epoch = self.leaders[node].epoch
        return known

    async def request(
        self, node: int, request: Any, *, lane: str = "", version: int | None = None, timeout_s: float
    ) -> Any:
        assert lane in LANES
        self.asked.append((node, request))
        self.asked_by.append((lane, request))
        if node in self.refuses:
            raise ConnectionRefused(f"nobody listens at {node}")
        leader = self._leader(node, lane)
        response = leader.answer(request)
        if isinstance(request, FetchRequest) and not any(
            data.records or data.error_code or data.diverging_epoch.epoch >= 0
            for topic in response.responses  # type: ignore[union-attr]
            for data in topic.partitions
        ):
            await self._hold((node, lane), request.max_wait_ms / 1000)
            # An empty incremental request reads the session again.
            response = leader.fetch(FetchRequest(session_epoch=1))
        return response

    async def _hold(self, key: tuple[int, str], wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        assert key not in self._held, "a second fetch while one is under way"
        held = self._held[key] = loop.create_future()
        timer = loop.call_later(wait_s, held.set_result, None)
        try:
            await held
        finally:
            timer.cancel()
            del self._held[key]

    def wake(self, node: int) -> None:
        self._held[node, LANES[0]].set_result(None)

    def drop(self, node: int, lane: str | None = None) -> None:
        assert lane is not None, "the other lane's fetch would fail with it"
        self.dropped.append(node)
        held = self._held.get((node, lane))
        if held is not None and not held.done():
            held.set_exception(ConnectionFailed("the connection was closed"))


class World:
    def __init__(self, *leaders: int, partitions: tuple[TopicPartition, ...] = (TP, OTHER), **properties: str) -> None:
        loop = asyncio.get_running_loop()
        self.logs = {leader: {tp: open_log(new_disk(), tp) for tp in partitions} for leader in (leaders or (int(ONE),))}
        self.peers = ToyPeers({leader: ToyLeader(logs, 0) for leader, logs in self.logs.items()})
        self.events: list[Event] = []
        own = {"node.id": "2", "controller.quorum.voters": "2@127.0.0.1:9093"}
        config, _ = NodeConfig.parse(PROPERTIES | own | {key.replace("_", "."): v for key, v in properties.items()})
        self.fetchers = ReplicaFetchers(
            loop,
            self.peers,
            config,
            broker_epoch=lambda: 11,
            wall_clock=VirtualClock(loop),
            on_event=self.events.append,
        )
        self.followers = {tp: follower_of(open_log(new_disk(), tp), 0) for tp in partitions}

    def assign(self, tp: TopicPartition = TP, leader: BrokerId = ONE, epoch: int = 0) -> None:
        follow(self.followers[tp], epoch, leader)
        self.fetchers.assign(tp, self.followers[tp], leader, LeaderEpoch(epoch))

    def log(self, tp: TopicPartition = TP) -> Log:
        return self.followers[tp].log

    def leader_log(self, tp: TopicPartition = TP, leader: int = ONE) -> Log:
        return self.logs[leader][tp]


def test_a_follower_fetches_what_comes_and_waits_in_the_leaders_hands() -> None:
    async def story() -> None:
        world = World()
        write(world.leader_log(), [(0, 3)])
        world.assign()
        await asyncio.sleep(0.1)
        assert contents(world.log()) == contents(world.leader_log())
        await asyncio.sleep(ASSIGNING_S)
        asked = len(world.peers.asked)
        await asyncio.sleep(0.2)
        assert len(world.peers.asked) == asked
        write(world.leader_log(), [(0, 1)])
        world.peers.wake(ONE)
        await asyncio.sleep(0.001)
        assert world.log().log_end_offset == 4
        await world.fetchers.close()
        assert world.peers.dropped == [ONE]

    on_virtual_time(story)


def test_what_is_assigned_meanwhile_does_not_wait_for_the_held_fetch() -> None:
    async def story() -> None:
        world = World()
        write(world.leader_log(OTHER), [(0, 2)])
        world.assign()
        await asyncio.sleep(ASSIGNING_S + 0.1)
        world.assign(OTHER)
        await asyncio.sleep(HURRY_S + 0.01)
        assert world.log(OTHER).log_end_offset == 2
        assert world.peers.dropped == [ONE]
        # A new session, since nobody knows how far the old one got.
        full = [
            request
            for _, request in world.peers.asked
            if isinstance(request, FetchRequest) and request.session_epoch == 0
        ]
        assert [len(request.topics[0].partitions) for request in full] == [1, 2]
        await world.fetchers.close()

    on_virtual_time(story)


def test_a_row_of_assignments_keeps_the_session() -> None:
    """Thousands come slice by slice: were a held fetch given up for each slice, most of the work were full fetches."""

    async def story() -> None:
        world = World()
        world.assign()
        write(world.leader_log(OTHER), [(0, 2)])
        for _ in range(20):
            await asyncio.sleep(0.11)
            asked = len(world.peers.asked)
            world.assign(OTHER)
            await asyncio.sleep(SHORT_WAIT_MS / 1000 + 0.001)
            assert asked < len(world.peers.asked), "what was assigned waits for the held fetch"
        assert world.log(OTHER).log_end_offset == 2
        assert world.peers.dropped == []
        fetches = [request for _, request in world.peers.asked if isinstance(request, FetchRequest)]
        assert [request.session_epoch == 0 for request in fetches].count(True) == 1
        assert max(request.max_wait_ms for request in fetches) == SHORT_WAIT_MS
        await world.fetchers.close()

    on_virtual_time(story)


def test_each_held_fetch_is_given_up_in_its_own_time() -> None:
    """The timer of one that ended by itself must not count for the next one, which is held as well."""

    async def story() -> None:
        world = World()
        world.assign()
        await asyncio.sleep(ASSIGNING_S + 0.1)
        world.assign(OTHER)
        await asyncio.sleep(HURRY_S / 4)
        world.peers.wake(ONE)
        await asyncio.sleep(2 * HURRY_S)
        assert world.peers.dropped == []
        await asyncio.sleep(ASSIGNING_S + 0.1)
        write(world.leader_log(OTHER), [(0, 2)])
        world.assign(OTHER)
        await asyncio.sleep(HURRY_S + 0.01)
        assert world.peers.dropped == [ONE]
        assert world.log(OTHER).log_end_offset == 2
        await world.fetchers.close()

    on_virtual_time(story)


def write_committed(log: Log, batches: int) -> None:
    write(log, [(0, batches)])
    log.update_high_watermark(log.log_end_offset)


def named(request: Any) -> set[int]:
    return {asked.partition for topic in request.topics for asked in topic.partitions}


MANY = tuple(TopicPartition("orders", number) for number in range(8))


def test_partitions_far_behind_are_fetched_by_two() -> None:
    """While the answer to one is written, that to the other is on its way."""

    async def story() -> None:
        world = World(partitions=MANY, replica_fetch_max_bytes="100")
        for tp in MANY:
            write_committed(world.leader_log(tp), 20)
            world.assign(tp)
        await asyncio.sleep(0.1)
        for tp in MANY:
            assert contents(world.log(tp)) == contents(world.leader_log(tp))
        # Nothing was given up for it.
        assert world.peers.dropped == []
        # Assigned again, it stays where it is.
        world.assign(MANY[7])
        await asyncio.sleep(0.1)
        first, second = ([named(request) for lane, request in world.peers.asked_by if lane == name] for name in LANES)
        assert first[0] == set(range(8))
        # Half of them each, and whoever is fetched by the second is not fetched by the first any more, not even once.
        assert set.union(*first[1:]) == {0, 1, 2, 3}
        assert set.union(*second) == {4, 5, 6, 7}
        write_committed(world.leader_log(MANY[7]), 1)
        await asyncio.sleep(0.1)
        assert world.log(MANY[7]).log_end_offset == 21
        for tp in MANY[4:]:
            world.fetchers.remove(tp)
        await asyncio.sleep(0.001)
        write_committed(world.leader_log(), 1)
        world.peers.wake(ONE)
        await asyncio.sleep(0.1)
        assert world.log().log_end_offset == 21
        await world.fetchers.close()
        assert len(asyncio.all_tasks()) == 1

    on_virtual_time(story)


def test_who_keeps_up_with_large_batches_has_one_fetcher() -> None:
    async def story() -> None:
        world = World(replica_fetch_max_bytes="100")
        world.assign()
        world.assign(OTHER)
        for _ in range(5):
            await asyncio.sleep(0.1)
            for tp in (TP, OTHER):
                write_committed(world.leader_log(tp), 1)
        await asyncio.sleep(0.1)
        assert {lane for lane, _ in world.peers.asked_by} == {LANES[0]}
        await world.fetchers.close()

    on_virtual_time(story)


def test_one_partition_far_behind_has_one_fetcher() -> None:
    async def story() -> None:
        world = World(replica_fetch_max_bytes="100")
        write_committed(world.leader_log(), 20)
        world.assign()
        world.assign(OTHER)
        await asyncio.sleep(0.1)
        assert world.log().log_end_offset == 20
        assert {lane for lane, _ in world.peers.asked_by} == {LANES[0]}
        await world.fetchers.close()

    on_virtual_time(story)


def test_a_leader_that_cannot_be_reached_is_asked_again_less_and_less_often() -> None:
    async def story() -> None:
        world = World()
        world.peers.refuses.add(ONE)
        world.assign()
        await asyncio.sleep(10.0)
        assert 10 <= len(world.peers.asked) <= 16
        world.peers.refuses.clear()
        write(world.leader_log(), [(0, 1)])
        await asyncio.sleep(1.01)
        assert world.log().log_end_offset == 1
        await world.fetchers.close()

    on_virtual_time(story)


def test_a_partition_moves_to_another_leader_and_the_first_task_ends() -> None:
    async def story() -> None:
        world = World(ONE, THREE)
        write(world.leader_log(), [(0, 3)])
        world.assign()
        await asyncio.sleep(0.1)
        write(world.leader_log(leader=THREE), [(0, 2), (1, 2)])
        world.peers.leaders[THREE].epoch = 1
        before = asyncio.all_tasks()
        world.assign(leader=THREE, epoch=1)
        await asyncio.sleep(0.1)
        assert contents(world.log()) != contents(world.leader_log())
        assert world.log().log_end_offset == 4
        assert [type(event) for event in world.events] == [LogTruncated]
        assert len(asyncio.all_tasks()) == len(before)
        world.fetchers.remove(TP)
        world.fetchers.remove(TP)
        await asyncio.sleep(0.001)
        assert len(asyncio.all_tasks()) == 1
        await world.fetchers.close()
        world.assign()
        await asyncio.sleep(0.001)
        assert len(asyncio.all_tasks()) == 1

    on_virtual_time(story)


def test_an_answer_that_breaks_the_fetcher_is_logged_and_fetching_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = World()
        write(world.leader_log(), [(0, 1)])

        def fail(*args: object, **kwargs: object) -> None:
            raise ZeroDivisionError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidelog.replication.following.append_as_follower", fail)
            world.assign()
            await asyncio.sleep(0.01)
        assert "retrying" in caplog.text
        await asyncio.sleep(0.1)
        assert world.log().log_end_offset == 1
        await world.fetchers.close()

    on_virtual_time(story)


def test_the_address_is_the_leaders_inter_broker_endpoint() -> None:
    registered = BrokerRegistration(
        broker_id=1,
        epoch=5,
        incarnation_id=UUID(int=9),
        listeners=(EndpointInfo("CLIENTS", "a", 1), EndpointInfo("BETWEEN", "b", 2)),
    )
    image = replace(EMPTY_IMAGE, brokers={1: registered})
    assert replication_address(image, 1, "BETWEEN") == Address("b", 2)
    assert replication_address(image, 1, "OTHER") is None
    assert replication_address(image, 2, "BETWEEN") is None
