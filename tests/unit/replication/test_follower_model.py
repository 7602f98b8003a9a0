"""Three replicas on disks that lose what was not synced, one leader after the other, answers that come late.

The leader's side is a dumb twin (`ToyLeader` and the rules W1, I3 in ten lines); the followers are the real ones. After
every step: what any leader called committed is in the log of every in-sync replica, byte for byte (StrongIsr,
CandidateCompleteness), and a batch's epoch is the one the epoch cache gives for its offset. In the end all logs are
equal.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.replication.replica_kit import (
    NOW,
    TP,
    UNLIMITED,
    ToyLeader,
    batch,
    contents,
    follow,
    follower_of,
    new_disk,
    open_log,
)

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import BrokerId, LeaderEpoch
from tidelog.replication.fetcher import Fetcher, FetcherConfig, Request
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.messages.list_offsets import ListOffsetsResponse

REPLICAS = 3
# Small, so that truncation, loss and catching up meet the borders of segments.
CONFIG = TopicConfig(segment_bytes=400)
LOCAL_OF_KIT = BrokerId(2)

Batch = tuple[int, int, int]


def batches(log: Log) -> list[Batch]:
    """(offset, epoch, CRC) of every batch."""
    return [
        (header.base_offset, header.partition_leader_epoch, header.crc)
        for segment in log.segments
        for _, header in segment.headers()
    ]


@dataclass(slots=True)
class Replica:
    disk: MemoryDisk
    partition: Partition
    # By leader, as a broker has them: one that leads again finds a request of an earlier epoch under way.
    fetchers: dict[int, Fetcher] = field(default_factory=dict)
    # A request under way to each, and the answer that will come.
    in_flight: dict[int, tuple[Request, FetchResponse | ListOffsetsResponse]] = field(default_factory=dict)
    checkpointed_hw: int = 0

    @property
    def log(self) -> Log:
        return self.partition.log


@dataclass(slots=True)
class World:
    replicas: list[Replica]
    leader: int = 0
    epoch: int = 0
    epoch_start: int = 0
    isr: set[int] = field(default_factory=set)
    known: dict[int, int] = field(default_factory=dict)
    written: int = 0
    committed: list[Batch] = field(default_factory=list)
    true_hw: int = 0

    # --- the leader's side ---

    def elect(self, chosen: int) -> None:
        """A clean election: a member of the ISR. It cuts nothing, the others follow it in the new epoch (E4)."""
        self.leader, self.epoch = chosen, self.epoch + 1
        log = self.replicas[chosen].log
        log.assign_epoch_start(self.epoch, log.log_end_offset)
        self.epoch_start, self.known = log.log_end_offset, {}
        for number, replica in enumerate(self.replicas):
            follow(replica.partition, self.epoch, chosen)
            for fetcher in replica.fetchers.values():
                fetcher.remove(TP)
            if number != chosen:
                self.assign(replica)

    def assign(self, replica: Replica) -> None:
        if self.leader not in replica.fetchers:
            replica.fetchers[self.leader] = Fetcher(
                LOCAL_OF_KIT,
                BrokerId(self.leader),
                1,
                # Room for a batch or three, and no pauses: time stands still here.
                FetcherConfig(partition_max_bytes=200, backoff_ms=0),
                ReplicationThrottle(LOCAL_OF_KIT, UNLIMITED),
            )
        replica.fetchers[self.leader].assign(replica.partition, LeaderEpoch(self.epoch), NOW)

    def write(self) -> None:
        self.written += 1
        self.replicas[self.leader].log.append_as_leader(batch(1, b"%d" % self.written), self.epoch, NOW)
        self.advance()

    def advance(self) -> None:
        log = self.replicas[self.leader].log
        end = min([log.log_end_offset] + [self.known.get(one, 0) for one in self.isr if one != self.leader])
        if end > log.high_watermark:
            log.update_high_watermark(end)
        if log.high_watermark > self.true_hw:
            self.true_hw = log.high_watermark
            self.committed = [entry for entry in batches(log) if entry[0] < self.true_hw]

    def send(self, number: int) -> None:
        replica = self.replicas[number]
        if number == self.leader or self.leader in replica.in_flight:
            return
        fetcher = replica.fetchers[self.leader]
        request = fetcher.build_request(0.0)
        assert request is not None, "the follower has nothing to ask"
        leader = ToyLeader({TP: self.replicas[self.leader].log}, self.epoch)
        answer = leader.answer(request)
        replica.in_flight[self.leader] = (request, answer)
        if isinstance(request, FetchRequest) and isinstance(answer, FetchResponse):
            self.learn(number, request.topics[0].partitions[0], answer)

    def learn(self, number: int, asked: FetchPartition, answer: FetchResponse) -> None:
        """The fetch offset is the follower's end, unless it was answered with an error or a divergence (F2, I3)."""
        data = answer.responses[0].partitions[0]
        answer.session_id = 0
        if data.error_code or data.diverging_epoch.epoch >= 0:
            return
        self.known[number] = asked.fetch_offset
        log = self.replicas[self.leader].log
        if asked.fetch_offset >= max(log.high_watermark, self.epoch_start):
            self.isr.add(number)
        self.advance()

    # --- the follower's side ---

    def deliver(self, number: int) -> None:
        """The answer that has waited longest."""
        replica = self.replicas[number]
        if replica.in_flight:
            leader = next(iter(replica.in_flight))
            request, answer = replica.in_flight.pop(leader)
            replica.fetchers[leader].on_response(request, answer, 0.0, NOW)

    def crash(self, number: int, seed: int) -> None:
        """Loses what was not synced. Who may have lost records is out of the ISR until it has caught up (C5)."""
        if self.isr == {number}:
            return
        self.isr.discard(number)
        if number == self.leader:
            self.elect(min(self.isr))
        replica = self.replicas[number]
        recovery_point = replica.log.recovery_point
        replica.disk.crash(random.Random(seed))
        log = open_log(
            replica.disk, config=CONFIG, recovery_point=recovery_point, high_watermark=replica.checkpointed_hw
        )
        replica.partition = follower_of(log, self.epoch, self.leader)
        replica.in_flight, replica.fetchers = {}, {}
        self.assign(replica)
        self.known.pop(number, None)
        self.advance()

    # --- what must hold ---

    def check(self) -> None:
        for number, replica in enumerate(self.replicas):
            log = replica.log
            held = batches(log)
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            if number in self.isr:
                assert [entry for entry in held if entry[0] < self.true_hw] == self.committed, number
            for offset, epoch, _ in held:
                assert log.epochs.epoch_for_offset(offset) == epoch, (number, offset)
            # What it calls committed, is.
            assert [entry for entry in held if entry[0] < log.high_watermark] == self.committed[: log.high_watermark]

    def settle(self) -> None:
        for number in range(REPLICAS):
            for _ in range(200):
                self.send(number)
                self.deliver(number)
        leader = self.replicas[self.leader].log
        for number in range(REPLICAS):
            log = self.replicas[number].log
            assert batches(log) == batches(leader), number
            assert contents(log) == contents(leader), number
            assert log.epochs.epoch_for_offset(log.log_end_offset - 1) == leader.epochs.epoch_for_offset(
                leader.log_end_offset - 1
            )


def new_world() -> World:
    replicas = []
    for _ in range(REPLICAS):
        disk = new_disk()
        replicas.append(Replica(disk, follower_of(open_log(disk, config=CONFIG), 0)))
    world = World(replicas, isr=set(range(REPLICAS)))
    world.elect(0)
    return world


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("fetch"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("fetch"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("send"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("deliver"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("elect"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("crash"), st.integers(0, 10_000)),
    st.tuples(st.just("flush"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("shrink"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("checkpoint"), st.integers(0, REPLICAS - 1)),
)


@pytest.mark.rule("E3", "W3")
@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=40, max_size=80))
def test_replicas_end_up_equal_and_lose_nothing_that_was_committed(steps: list[tuple[str, int]]) -> None:
    world = new_world()
    for step, number in steps:
        replica = world.replicas[number % REPLICAS]
        match step:
            case "write":
                for _ in range(number):
                    world.write()
            case "fetch":
                world.send(number)
                world.deliver(number)
            case "send":
                world.send(number)
            case "deliver":
                world.deliver(number)
            case "elect" if number in world.isr:
                world.elect(number)
            case "crash":
                world.crash(number % REPLICAS, number)
            case "flush":
                replica.log.flush(NOW)
            case "shrink" if number != world.leader:
                world.isr.discard(number)
                world.advance()
            case "checkpoint":
                replica.checkpointed_hw = replica.log.high_watermark
        world.check()
    world.settle()
    world.check()
