"""One leader on real storage, two followers and a controller as dumb as can be, and messages that come late or never.

The twin knows what really is: how far each follower's log reaches and what the controller has committed. After every
step it asks what matters (reliability 2, 4, 8): whoever may be elected has everything that was exposed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.replication.leader_kit import LAG_S, Led, broker, registration

from tidelog.core.config.topic import TopicConfig
from tidelog.metadata.image import BrokerRegistration
from tidelog.replication.refusals import PROBE_S
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.wire.messages.alter_partition import PartitionData as Proposal


@dataclass(frozen=True)
class Fetch:
    """On its way to the leader, as it was sent."""

    replica: int
    offset: int
    broker_epoch: int
    leader_epoch: int


@dataclass
class Replica:
    """A follower as it really is."""

    end: int = 0
    broker_epoch: int = 0
    leader_epoch: int = 5


class World:
    """Every public method is a step that any schedule may take at any time."""

    def __init__(self, min_isr: int, isr: tuple[int, ...]) -> None:
        self.min_isr = min_isr
        self.led = Led(replace(TopicConfig(), min_insync_replicas=min_isr), isr=isr)
        self.partition = registration(isr=isr)
        self.elr: set[int] = set()
        self.brokers: dict[int, BrokerRegistration] = dict(self.led.context.brokers)
        self.replicas = {each: Replica(broker_epoch=each + 10) for each in (2, 3)}
        self.late: list[Fetch] = []
        self.next_epoch = 100
        self.request: AlterPartitionRequest | None = None
        self.high_watermark = 0
        # The highest that any leader has exposed.
        self.exposed = 0

    # --- the leader and its clock

    def write(self, *copied_by: int) -> None:
        self.led.write(2)
        for replica in copied_by:
            self.fetch(replica)

    def time_passes(self, seconds: float) -> None:
        self.led.now_s += seconds
        self.led.partition.check_isr(self.led.now_s)

    # --- followers

    def fetch(self, replica: int) -> None:
        """Twice: the second tells what the first has brought."""
        for _ in range(2):
            self._arrives(self._fetch_of(replica), answer_lost=False)

    def fetch_without_answer(self, replica: int) -> None:
        self._arrives(self._fetch_of(replica), answer_lost=True)

    def fetch_is_sent(self, replica: int) -> None:
        self.late.append(self._fetch_of(replica))

    def late_fetch_arrives(self, answer_lost: bool) -> None:
        if self.late:
            self._arrives(self.late.pop(0), answer_lost)

    def _fetch_of(self, replica: int) -> Fetch:
        each = self.replicas[replica]
        return Fetch(replica, each.end, each.broker_epoch, each.leader_epoch)

    def _arrives(self, fetch: Fetch, answer_lost: bool) -> None:
        led = self.led
        try:
            led.fetch(fetch.replica, fetch.offset, broker_epoch=fetch.broker_epoch, leader_epoch=fetch.leader_epoch)
        except ApiError:
            return
        each = self.replicas[fetch.replica]
        asked = (fetch.offset, fetch.broker_epoch, fetch.leader_epoch)
        if not answer_lost and asked == (each.end, each.broker_epoch, each.leader_epoch):
            each.end = led.log.log_end_offset

    def restarts_uncleanly(self, replica: int, loses: int) -> None:
        """Registered anew, and out of ISR and ELR in the same batch (C5)."""
        each = self.replicas[replica]
        each.end = max(0, each.end - loses)
        self.next_epoch += 1
        each.broker_epoch = self.next_epoch
        self.brokers = {**self.brokers, replica: broker(replica, epoch=self.next_epoch)}
        self._decide(tuple(member for member in self.partition.isr if member != replica), lost=replica)

    def is_fenced(self, replica: int) -> None:
        self.brokers = {**self.brokers, replica: replace(self.brokers[replica], fenced=True)}
        self._decide(tuple(member for member in self.partition.isr if member != replica))

    def is_unfenced(self, replica: int) -> None:
        self.brokers = {**self.brokers, replica: replace(self.brokers[replica], fenced=False)}

    def another_leads_meanwhile(self, other: int) -> None:
        """Unseen from here until the metadata comes: the others have cut what that leader does not have.

        It has committed what all in sync have, more perhaps than the leader here knows of.
        """
        if other not in self.partition.isr:
            return
        end = self.replicas[other].end
        if len(self.partition.isr) >= self.min_isr:
            ends = [each.end for number, each in self.replicas.items() if number in self.partition.isr]
            self.exposed = max(self.exposed, min(self.led.log.log_end_offset, *ends))
        epoch = self.partition.leader_epoch + 2
        for each in self.replicas.values():
            each.end, each.leader_epoch = min(each.end, end), epoch
        self.partition = self.partition._replace(leader_epoch=epoch, partition_epoch=self.partition.partition_epoch + 2)

    # --- the controller

    def request_is_sent(self) -> None:
        request = self.led.request()
        assert request is None or self.request is None, "one request at a time"
        self.request = self.request or request

    def controller_decides(self, times: int, answered: bool) -> None:
        """A request that the network may lose, or bring twice, and whose answer may be lost as well."""
        self.request_is_sent()
        if self.request is None:
            return
        response = None
        for _ in range(times):
            response = self._alter_partition(self.request)
        self.request = None
        if response is not None and answered:
            self.led.context.changes.on_response(response, self.led.now_s)
        else:
            self.led.context.changes.on_failure()

    def metadata_arrives(self) -> None:
        self.led.context.brokers = self.brokers
        self.led.partition.apply(self.partition, self.led.now_s)
        self.led.partition.advance_high_watermark(self.led.now_s)

    def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        answer = ResponsePartitionData(partition_index=0, error_code=self._check(asked))
        if answer.error_code == ErrorCode.NONE:
            self._decide(tuple(member.broker_id for member in asked.new_isr_with_epochs))
            answer.leader_id, answer.leader_epoch = 1, self.partition.leader_epoch
            answer.isr, answer.partition_epoch = list(self.partition.isr), self.partition.partition_epoch
        return AlterPartitionResponse(topics=[ResponseTopicData(topic_id=topic.topic_id, partitions=[answer])])

    def _check(self, asked: Proposal) -> ErrorCode:
        if asked.leader_epoch < self.partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.partition_epoch < self.partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in asked.new_isr_with_epochs:
            known = self.brokers[member.broker_id]
            if known.fenced or member.broker_epoch not in (-1, known.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _decide(self, isr: tuple[int, ...], lost: int = -1) -> None:
        """C5 for the ELR."""
        elr = (set(self.partition.isr) | self.elr) - set(isr) - {lost}
        elr = elr if len(isr) < self.min_isr else set()
        if (isr, elr) != (self.partition.isr, self.elr):
            self.elr = elr
            self.partition = self.partition._replace(isr=isr, partition_epoch=self.partition.partition_epoch + 1)

    # --- what must hold

    def check(self) -> None:
        led = self.led
        candidates = {*self.partition.isr, *self.elr}
        story = {"leader": led.partition.role, "controller": self.partition, "elr": self.elr, "really": self.replicas}
        assert self.high_watermark <= led.high_watermark <= led.log.log_end_offset, story
        self.high_watermark = led.high_watermark
        self.exposed = max(self.exposed, self.high_watermark)
        for member in candidates - {1}:
            assert self.replicas[member].end >= self.exposed, (member, story)
        if led.partition.leader_epoch == self.partition.leader_epoch and len(led.isr) >= self.min_isr:
            assert led.maximal_isr >= candidates, story

    def calm(self) -> None:
        """Once messages arrive and everybody fetches, all are in sync and everything is committed."""
        for number in self.replicas:
            self.is_unfenced(number)
        for _ in range(12):
            self.led.now_s += PROBE_S
            self.metadata_arrives()
            for number, each in self.replicas.items():
                each.leader_epoch = self.led.partition.leader_epoch
                self.fetch(number)
            self.controller_decides(1, True)
            self.check()
        assert self.led.isr == {1, 2, 3}, self.led.partition.role
        assert self.led.high_watermark == self.led.log.log_end_offset


Step = Callable[[World], None]


def often(times: int, step: Callable[..., None], *args: Any) -> list[tuple[str, Step]]:
    return [(f"{step.__name__}{args}", lambda world: step(world, *args))] * times


STEPS: list[tuple[str, Step]] = [
    *[one for copied_by in ((), (2,), (3,), (2, 3)) for one in often(2, World.write, *copied_by)],
    *[one for seconds in (0.5, LAG_S / 2, LAG_S + 1) for one in often(1, World.time_passes, seconds)],
    *[one for replica in (2, 3) for one in often(3, World.fetch, replica)],
    *[one for replica in (2, 3) for one in often(1, World.fetch_without_answer, replica)],
    *[one for replica in (2, 3) for one in often(1, World.fetch_is_sent, replica)],
    *[one for lost in (False, True) for one in often(1, World.late_fetch_arrives, lost)],
    *[one for replica in (2, 3) for loses in (0, 2) for one in often(1, World.restarts_uncleanly, replica, loses)],
    *[one for replica in (2, 3) for one in often(1, World.is_fenced, replica)],
    *[one for replica in (2, 3) for one in often(1, World.is_unfenced, replica)],
    *[one for replica in (2, 3) for one in often(1, World.another_leads_meanwhile, replica)],
    *often(2, World.request_is_sent),
    *often(4, World.controller_decides, 1, True),
    *often(2, World.controller_decides, 1, False),
    *often(1, World.controller_decides, 2, True),
    *often(1, World.controller_decides, 0, False),
    *often(5, World.metadata_arrives),
]


@pytest.mark.rule("W1", "W2", "I3", "I4", "I5")
@settings(max_examples=250, deadline=None)
@given(
    min_isr=st.integers(1, 3),
    isr=st.sampled_from([(1, 2, 3), (1, 2), (1,)]),
    numbers=st.lists(st.integers(0, len(STEPS) - 1), min_size=30, max_size=60),
)
def test_whoever_may_be_elected_has_what_was_exposed(min_isr: int, isr: tuple[int, ...], numbers: list[int]) -> None:
    world = World(min_isr, isr)
    for number in numbers:
        STEPS[number][1](world)
        world.check()
    world.calm()
