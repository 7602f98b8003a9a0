"""One leader on real storage, two followers and a controller as dumb as can be, and messages that come late or never.

The twin knows what really is: how far each follower's log reaches and what the controller has committed. After every
step it asks what matters (reliability 2, 4, 8): whoever may be elected has everything that was exposed.
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.unit.replication.leader_kit import LAG_S, Led, broker, registration

from tidelog.core.config.topic import TopicConfig
from tidelog.metadata.image import BrokerRegistration
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.wire.messages.alter_partition import PartitionData as Proposal

FOLLOWERS = st.sampled_from([2, 3])


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


class LeaderModel(RuleBasedStateMachine):
    fetches = Bundle("fetches")

    @initialize(min_isr=st.integers(1, 3), isr=st.sampled_from([(1, 2, 3), (1, 2), (1,)]))
    def begin(self, min_isr: int, isr: tuple[int, ...]) -> None:
        self.min_isr = min_isr
        self.led = Led(replace(TopicConfig(), min_insync_replicas=min_isr), isr=isr)
        self.partition = registration(isr=isr)
        self.elr: set[int] = set()
        self.brokers: dict[int, BrokerRegistration] = dict(self.led.context.brokers)
        self.replicas = {each: Replica(broker_epoch=each + 10) for each in (2, 3)}
        self.next_epoch = 100
        self.request: AlterPartitionRequest | None = None
        self.exposed = 0

    # --- the leader and its clock

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        self.led.write(count)

    @rule(seconds=st.sampled_from([0.5, 5.0, LAG_S + 1]))
    def time_passes(self, seconds: float) -> None:
        self.led.now_s += seconds
        self.led.partition.check_isr(self.led.now_s)

    # --- followers

    @rule(target=fetches, replica=FOLLOWERS)
    def fetch_is_sent(self, replica: int) -> Fetch:
        each = self.replicas[replica]
        return Fetch(replica, each.end, each.broker_epoch, each.leader_epoch)

    @rule(fetch=consumes(fetches), takes=st.integers(0, 3), answer_lost=st.booleans())
    def fetch_arrives(self, fetch: Fetch, takes: int, answer_lost: bool) -> None:
        led = self.led
        before = led.log.log_end_offset
        try:
            led.fetch(fetch.replica, fetch.offset, broker_epoch=fetch.broker_epoch, leader_epoch=fetch.leader_epoch)
        except ApiError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert led.log.log_end_offset == before
        each = self.replicas[fetch.replica]
        asked = (fetch.offset, fetch.broker_epoch, fetch.leader_epoch)
        if not answer_lost and asked == (each.end, each.broker_epoch, each.leader_epoch):
            each.end = min(before, each.end + takes)

    @rule(replica=FOLLOWERS, loses=st.integers(0, 3))
    def restarts_uncleanly(self, replica: int, loses: int) -> None:
        """Registered anew, fenced no longer, and out of ISR and ELR in the same batch (C5)."""
        each = self.replicas[replica]
        each.end = max(0, each.end - loses)
        self.next_epoch += 1
        each.broker_epoch = self.next_epoch
        self.brokers = {**self.brokers, replica: broker(replica, epoch=self.next_epoch)}
        self._decide(tuple(member for member in self.partition.isr if member != replica), lost=replica)

    @rule(replica=FOLLOWERS, fenced=st.booleans())
    def is_fenced_or_unfenced(self, replica: int, fenced: bool) -> None:
        self.brokers = {**self.brokers, replica: replace(self.brokers[replica], fenced=fenced)}
        if fenced:
            self._decide(tuple(member for member in self.partition.isr if member != replica))

    @rule(data=st.data())
    def another_leader_comes_and_goes(self, data: st.DataObject) -> None:
        """Unseen from here until the metadata comes: the others cut what that leader does not have."""
        candidates = [each for each in self.partition.isr if each != 1 and not self.brokers[each].fenced]
        if not candidates or len(self.partition.isr) < self.min_isr:
            return
        other = data.draw(st.sampled_from(candidates))
        end = self.replicas[other].end
        epoch = self.partition.leader_epoch + 2
        for each in self.replicas.values():
            each.end, each.leader_epoch = min(each.end, end), epoch
        self.partition = self.partition._replace(leader_epoch=epoch, partition_epoch=self.partition.partition_epoch + 2)

    # --- the controller

    @rule()
    def request_is_sent(self) -> None:
        request = self.led.request()
        if request is not None:
            assert self.request is None, "one request at a time"
            self.request = request

    @rule(times=st.integers(0, 2), answered=st.booleans())
    def controller_decides(self, times: int, answered: bool) -> None:
        """A request that the network may lose, or bring twice, and whose answer may be lost as well."""
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

    @rule()
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
            if known.fenced or known.epoch != member.broker_epoch:
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

    def _knows_its_epoch(self) -> bool:
        return self.led.partition.leader_epoch == self.partition.leader_epoch

    @invariant()
    def the_high_watermark_never_goes_back_nor_beyond_the_end(self) -> None:
        if not hasattr(self, "led"):
            return
        assert self.exposed <= self.led.high_watermark <= self.led.log.log_end_offset
        self.exposed = self.led.high_watermark

    @invariant()
    def candidates_have_what_was_exposed(self) -> None:
        if not hasattr(self, "led"):
            return
        for member in {*self.partition.isr, *self.elr} - {1}:
            assert self.replicas[member].end >= self.exposed, (member, self.replicas, self.exposed, self._state())

    @invariant()
    def the_leader_counts_whom_the_controller_counts(self) -> None:
        if not hasattr(self, "led") or not self._knows_its_epoch():
            return
        if len(self.led.isr) >= self.min_isr:
            assert self.led.maximal_isr >= {*self.partition.isr, *self.elr}, self._state()

    def _state(self) -> dict[str, Any]:
        return {"leader": self.led.partition.role, "controller": self.partition, "elr": self.elr}

    def teardown(self) -> None:
        """Liveness: once messages arrive and everybody fetches, all are in sync and everything is committed."""
        if not hasattr(self, "led"):
            return
        for number in self.replicas:
            self.brokers = {**self.brokers, number: replace(self.brokers[number], fenced=False)}
        for _ in range(12):
            self.metadata_arrives()
            epoch = self.led.partition.leader_epoch
            for number, each in self.replicas.items():
                each.leader_epoch = epoch
                self.led.fetch(number, min(each.end, self.led.log.log_end_offset), broker_epoch=each.broker_epoch)
                each.end = self.led.log.log_end_offset
            if self.request is None:
                self.request = self.led.request()
            self.controller_decides(1, True)
        assert self.led.isr == {1, 2, 3}, self._state()
        assert self.led.high_watermark == self.led.log.log_end_offset


TestLeaderModel = LeaderModel.TestCase
TestLeaderModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
