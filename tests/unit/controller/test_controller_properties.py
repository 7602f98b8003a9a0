"""Any sequence of brokers, leaders and operators leaves metadata that holds together.

After every record of every decision the Metadata and Epochs invariants are checked (every record, because a decision of
several batches may be cut short between any two of them), after every decision also UncleanExclusion and Reassignment.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.controller.harness import Harness, create_topic, directory_id, node_config

from tidelog.controller.decision import Decision
from tidelog.controller.elections import elr_enabled
from tidelog.controller.fast_fence import BrokerProcess, DialOutcome
from tidelog.controller.invariants import InvariantBroken, check_epochs, check_invariants
from tidelog.controller.partition_rules import rules_for
from tidelog.controller.partitions import is_online
from tidelog.core.events import LeaderElected
from tidelog.core.ids import NO_LEADER, TopicPartition
from tidelog.metadata.image import ClusterImage, PartitionRegistration, Provenance
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord, frame, unframe
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from tidelog.wire.messages.assign_replicas_to_dirs import PartitionData as AssignedPartition
from tidelog.wire.messages.assign_replicas_to_dirs import TopicData as AssignedTopic
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

BROKERS = (1, 2, 3, 4)
PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))

brokers = st.sampled_from(BROKERS)
partitions = st.sampled_from(PARTITIONS)
assignments = st.lists(brokers, min_size=1, max_size=4, unique=True)


class StepByStep(Harness):
    """Replays record by record, checking at each, and stops after `budget` records as a dying controller would."""

    budget: int | None = None

    def take(self, decision: Decision[Any]) -> Any:
        self.decision = decision
        self.records = [unframe(frame(record)) for record in decision.records]
        if self.budget is not None:
            # An atomic decision is there as a whole or not at all.
            self.records = [] if decision.atomic else self.records[: self.budget]
        for batch in [self.records] if decision.atomic else [[record] for record in self.records]:
            self._replay(batch)
        return decision.response

    def _replay(self, batch: list[MetadataRecord]) -> None:
        before = self.image
        self.next_offset += len(batch)
        self.controller.replay(batch, Provenance(self.next_offset - 1, 1, 0))
        check_invariants(self.image, self.controller.config)
        check_epochs(before, self.image)


class ControllerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = StepByStep(node_config(min_insync_replicas="2"))
        self.incarnations = dict.fromkeys(BROKERS, 1)
        self.sent: list[AlterPartitionRequest] = []
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        # (partition, broker) whose replica may have lost records and has not caught up since
        self.incomplete: set[tuple[TopicPartition, int]] = set()

    @initialize()
    def start(self) -> None:
        for broker_id in BROKERS:
            self.harness.register(broker_id, directories=2)
            self.harness.unfence(broker_id)
        create_topic(self.harness, "t", [[1, 2, 3], [2, 3, 4], [4, 1, 2]])

    # --- the world ---

    @property
    def image(self) -> ClusterImage:
        return self.harness.image

    def partition(self, tp: TopicPartition) -> PartitionRegistration:
        return self.harness.partition(tp)

    def send(self, request: Any) -> Any:
        response = self.harness.send(request)
        self.note_unclean_elections()
        return response

    def note_unclean_elections(self) -> None:
        for each in self.harness.decision.events:
            if isinstance(each, LeaderElected) and each.unclean:
                self.incomplete.discard((TopicPartition(each.topic, each.partition), each.leader))

    # --- brokers come and go ---

    @rule(broker_id=brokers, clean=st.booleans(), lost=st.none() | st.integers(0, 1), wait=st.booleans())
    def restart(self, broker_id: int, clean: bool, lost: int | None, wait: bool) -> None:
        self.harness.now_s += 9 if wait else 0
        self.incarnations[broker_id] += 1
        known = self.image.brokers.get(broker_id)
        previous = known.epoch if clean and known is not None else -1
        log_dirs = [directory_id(broker_id, number) for number in (0, 1) if number != lost]
        self.harness.decision = Decision(response=None)
        response = self.harness.register(
            broker_id, incarnation=self.incarnations[broker_id], previous_broker_epoch=previous, log_dirs=log_dirs
        )
        if response.error_code != ErrorCode.NONE:
            assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            self.incarnations[broker_id] -= 1
            return
        self.note_unclean_elections()
        if previous == -1 and known is not None:
            self.incomplete |= {(tp, broker_id) for tp in PARTITIONS if broker_id in self.partition(tp).replicas}

    @rule(broker_id=brokers, fence=st.booleans(), stop=st.booleans(), behind=st.booleans(), failed=st.booleans())
    def heartbeat(self, broker_id: int, fence: bool, stop: bool, behind: bool, failed: bool) -> None:
        if broker_id in self.image.brokers:
            self.harness.heartbeat(
                broker_id,
                want_fence=fence,
                want_shut_down=stop,
                current_metadata_offset=0 if behind else self.harness.next_offset,
                offline_log_dirs=[directory_id(broker_id, 0)] if failed else [],
            )
            self.note_unclean_elections()

    @rule()
    def everybody_is_well(self) -> None:
        for broker_id in sorted(self.image.brokers):
            self.harness.heartbeat(broker_id)
            self.note_unclean_elections()

    @rule(seconds=st.integers(1, 10))
    def silence(self, seconds: int) -> None:
        controller = self.harness.controller
        self.harness.now_s += seconds
        while decision := controller.fence_stale_broker(next_offset=self.harness.next_offset, now_s=self.harness.now_s):
            self.harness.take(decision)
            self.note_unclean_elections()

    @rule(gone=st.sets(brokers, max_size=2))
    def processes_die(self, gone: set[int]) -> None:
        controller, fast = self.harness.controller, self.harness.controller.fast_fence
        for broker_id in sorted(gone & self.image.brokers.keys()):
            fast.heard(broker_id, BrokerProcess(broker_id, self.harness.epoch(broker_id)))
            fast.connection_lost(broker_id, self.harness.now_s)
        self.harness.now_s += 0.2
        for process in fast.dials(self.harness.now_s):
            fast.dialled(process, DialOutcome.REFUSED, self.harness.now_s)
        self.harness.now_s += 0.2
        while decision := controller.fence_refused_broker(
            next_offset=self.harness.next_offset, now_s=self.harness.now_s
        ):
            self.harness.take(decision)
            self.note_unclean_elections()

    @rule(broker_id=brokers)
    def unregister(self, broker_id: int) -> None:
        if sum(not broker.fenced for broker in self.image.brokers.values()) > 1:
            self.send(UnregisterBrokerRequest(broker_id=broker_id))

    # --- leaders propose ---

    def proposal(self, tp: TopicPartition, members: set[int], recovered: bool) -> AlterPartitionRequest:
        partition = self.partition(tp)
        isr = [each for each in partition.replicas if each in members or each == partition.leader]
        data = PartitionData(
            partition_index=tp.partition,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            leader_recovery_state=0 if recovered else partition.leader_recovery_state,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=self.epoch(each)) for each in isr],
        )
        topic_id = self.image.topics_by_name[tp.topic].topic_id
        return AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.epoch(partition.leader),
            topics=[TopicData(topic_id=topic_id, partitions=[data])],
        )

    def epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    @rule(tp=partitions, members=st.sets(brokers), recovered=st.booleans())
    def propose(self, tp: TopicPartition, members: set[int], recovered: bool) -> None:
        request = self.proposal(tp, members, recovered)
        self.sent = [*self.sent[-9:], request]
        self.deliver(request)

    @rule(tp=partitions, recovered=st.booleans())
    def catch_up(self, tp: TopicPartition, recovered: bool) -> None:
        """Everybody who can is in sync again."""
        members = {each for each in self.partition(tp).replicas if self.in_service(tp, each)}
        self.deliver(self.proposal(tp, members, recovered))

    def in_service(self, tp: TopicPartition, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.active and is_online(broker, self.partition(tp).directory_of(broker_id))

    @rule(tp=partitions, members=st.sets(brokers))
    def propose_and_lose_it(self, tp: TopicPartition, members: set[int]) -> None:
        self.sent = [*self.sent[-9:], self.proposal(tp, members, recovered=False)]

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def deliver_again_or_late(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.sampled_from(self.sent)))

    def deliver(self, request: AlterPartitionRequest) -> None:
        before = self.image
        wanted = request.topics[0].partitions[0]
        tp = TopicPartition("t", wanted.partition_index)
        was = self.partition(tp)
        response = self.send(request)
        if response.error_code != ErrorCode.NONE:
            assert response.error_code == ErrorCode.STALE_BROKER_EPOCH and self.image is before
            return
        result = response.topics[0].partitions[0]
        if result.error_code == ErrorCode.NONE:
            assert tuple(result.isr) == self.partition(tp).isr
            members = {each.broker_id for each in wanted.new_isr_with_epochs}
        elif result.error_code == ErrorCode.NEW_LEADER_ELECTED:
            members = set(self.partition(tp).isr)
        else:
            assert self.image is before
            return
        assert (wanted.leader_epoch, wanted.partition_epoch) == (was.leader_epoch, was.partition_epoch), "stale"
        self.incomplete -= {(tp, each) for each in members}

    # --- operators and timers ---

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        self.send(ElectLeadersRequest(election_type=int(unclean), topic_partitions=None))

    @rule(unclean=st.booleans())
    def timer(self, unclean: bool) -> None:
        controller = self.harness.controller
        decide = controller.elect_unclean_leaders if unclean else controller.balance_leaders
        self.harness.take(decide(next_offset=self.harness.next_offset, now_s=self.harness.now_s))
        self.note_unclean_elections()

    @rule(tp=partitions, replicas=assignments)
    def reassign(self, tp: TopicPartition, replicas: list[int]) -> None:
        self._reassign(tp, replicas)

    @rule(tp=partitions)
    def cancel(self, tp: TopicPartition) -> None:
        self._reassign(tp, None)

    def _reassign(self, tp: TopicPartition, replicas: list[int] | None) -> None:
        before = self.partition(tp)
        wanted = ReassignablePartition(partition_index=tp.partition, replicas=replicas)
        topics = [ReassignableTopic(name=tp.topic, partitions=[wanted])]
        self.send(AlterPartitionReassignmentsRequest(topics=topics))
        after = self.partition(tp)
        rules = rules_for(self.image, self.harness.controller.config)(self.image.topics_by_name[tp.topic])
        if not rules.unclean_leader_election_enable and not set(before.isr) <= set(after.isr):
            assert set(after.isr) <= {*before.isr, *before.elr}, "only catching up adds to the ISR"
            assert len(after.isr) >= rules.effective_min_isr(after.replicas), "never below the minimum by itself"
        self.incomplete = {(at, each) for at, each in self.incomplete if each in self.partition(at).replicas}

    @rule(topic=st.booleans(), value=st.sampled_from([None, "1", "2", "3"]))
    def min_isr(self, topic: bool, value: str | None) -> None:
        known = "min.insync.replicas" in self.image.broker_configs(None)
        kept = value is None and not topic and known and elr_enabled(self.image)
        code = ErrorCode.INVALID_CONFIG if kept else ErrorCode.NONE
        assert self.configure("min.insync.replicas", value, topic=topic) == code

    @rule(topic=st.booleans(), value=st.sampled_from([None, "true", "false"]))
    def unclean(self, topic: bool, value: str | None) -> None:
        assert self.configure("unclean.leader.election.enable", value, topic=topic) == ErrorCode.NONE

    def configure(self, name: str, value: str | None, *, topic: bool) -> int:
        config = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
        resource = AlterConfigsResource(
            resource_type=2 if topic else 4, resource_name="t" if topic else "", configs=[config]
        )
        (answer,) = self.send(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert isinstance(answer, AlterConfigsResourceResponse)
        return answer.error_code

    @rule(broker_id=brokers, tp=partitions, number=st.integers(0, 2))
    def assign(self, broker_id: int, tp: TopicPartition, number: int) -> None:
        topic = AssignedTopic(
            topic_id=self.image.topics_by_name[tp.topic].topic_id,
            partitions=[AssignedPartition(partition_index=tp.partition)],
        )
        directories = [DirectoryData(id_=directory_id(broker_id, number), topics=[topic])]
        self.send(
            AssignReplicasToDirsRequest(
                broker_id=broker_id, broker_epoch=self.epoch(broker_id), directories=directories
            )
        )

    @rule(level=st.integers(0, 1))
    def elr_feature(self, level: int) -> None:
        update = FeatureUpdateKey(
            feature="eligible.leader.replicas.version", max_version_level=level, upgrade_type=2 - level
        )
        self.send(UpdateFeaturesRequest(feature_updates=[update]))

    # --- controllers come and go ---

    @rule()
    def controller_fails_over(self) -> None:
        self.harness.take(self.harness.controller.activate(self.image, [], self.harness.now_s))
        self.note_unclean_elections()

    @rule(broker_id=brokers, budget=st.integers(0, 3), unfence=st.booleans())
    def controller_dies_in_the_middle(self, broker_id: int, budget: int, unfence: bool) -> None:
        if broker_id not in self.image.brokers:
            return
        self.harness.budget = budget
        self.harness.heartbeat(broker_id, want_fence=not unfence)
        self.harness.budget = None
        self.note_unclean_elections()
        self.controller_fails_over()

    # --- what holds ---

    @invariant()
    def one_leader_per_epoch(self) -> None:
        for tp in PARTITIONS:
            partition = self.image.partition(tp)
            if partition is not None:
                leader = self.leaders.setdefault((tp, partition.leader_epoch), partition.leader)
                assert leader == partition.leader

    @invariant()
    def somebody_leads_who_can(self) -> None:
        for tp in PARTITIONS if self.image.topics_by_name else ():
            partition = self.partition(tp)
            if partition.leader == NO_LEADER:
                complete = partition.isr or partition.elr
                assert not [each for each in complete if self.in_service(tp, each)], f"{tp}: {partition}"

    @invariant()
    def unclean_exclusion(self) -> None:
        if not self.image.features.get("eligible.leader.replicas.version"):
            # Without an ELR the last member stays in the ISR whatever happened to it.
            self.incomplete.clear()
        for tp, broker_id in sorted(self.incomplete):
            partition = self.partition(tp)
            assert broker_id not in (*partition.isr, *partition.elr), f"{tp} counts on {broker_id}: {partition}"


@pytest.mark.rule("C3")
@pytest.mark.rule("C4")
@pytest.mark.rule("C5")
def test_any_sequence() -> None:
    run_state_machine_as_test(ControllerMachine, settings=settings(stateful_step_count=50))


def _bent(**changed: Any) -> ClusterImage:
    """An image with a partition that no decision would leave so."""
    harness = Harness(node_config(min_insync_replicas="2"))
    harness.join(1, 2, 3)
    create_topic(harness, "t", [[1, 2, 3]])
    record = PartitionChangeRecord(topic_id=harness.image.topics_by_name["t"].topic_id, partition_id=0, **changed)
    harness.controller.replay([record], Provenance(99, 1, 0))
    return harness.image


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"leader": 3, "isr": [1, 2]}, "the leader is not in the ISR"),
        ({"isr": [1, 2, 3, 4]}, "not assigned"),
        ({"isr": [1], "eligible_leader_replicas": [1]}, "overlap"),
        ({"isr": [1, 2, 2]}, "twice"),
        ({"isr": [1, 2], "eligible_leader_replicas": [3]}, "the ELR is not empty"),
        ({"leader_recovery_state": 1}, "is recovering"),
        ({"adding_replicas": [4]}, "reassignment"),
    ],
)
def test_the_checks_can_fail(changed: dict[str, Any], message: str) -> None:
    image = _bent(**changed)
    with pytest.raises(InvariantBroken, match=message):
        check_invariants(image, node_config(min_insync_replicas="2"))
