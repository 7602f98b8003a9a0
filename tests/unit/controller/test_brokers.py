"""Registration, heartbeats, fencing and what they do to partitions (C2, C3, C5)."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.harness import (
    T0,
    Harness,
    cluster,
    directory_id,
    node_config,
    registration,
    state,
    with_topic,
)

from tidelog.controller.configs import MIN_INSYNC_REPLICAS, Operation
from tidelog.controller.fast_fence import BrokerProcess
from tidelog.controller.features import UpgradeType
from tidelog.core.events import BrokerFenced, BrokerRegistered, BrokerUnfenced, LeaderElected
from tidelog.metadata.features import ELR_VERSION, bootstrap_records
from tidelog.metadata.image import EMPTY_IMAGE, LeaderRecoveryState, Provenance
from tidelog.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import Listener
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode


def connected(harness: Harness, broker_id: int) -> None:
    """Its heartbeats come over a connection that stands."""
    harness.controller.fast_fence.heard(
        f"heartbeats of {broker_id}", BrokerProcess(broker_id, harness.epoch(broker_id))
    )


@pytest.mark.rule("C1")
def test_a_new_cluster_starts_with_its_feature_levels() -> None:
    harness = Harness(node_config(min_insync_replicas="2"))
    assert harness.records == [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2"),
    ]
    again = harness.controller.activate(harness.image, bootstrap_records(), 0.0)
    assert list(again.records) == []


@pytest.mark.rule("C1")
def test_losing_leadership_goes_back_to_what_is_committed() -> None:
    harness = cluster(1)
    committed = harness.image
    harness.register(2)
    assert 2 in harness.image.brokers
    harness.controller.resign(committed)
    assert harness.image is committed


class TestRegistration:
    @pytest.mark.rule("C2")
    def test_it_starts_fenced_and_its_epoch_is_the_offset_of_its_record(self) -> None:
        harness = Harness()
        offset = harness.next_offset
        assert harness.register(1, rack="a").broker_epoch == offset
        (record,) = harness.records
        assert isinstance(record, RegisterBrokerRecord)
        assert (record.broker_epoch, record.fenced, record.rack, record.log_dirs) == (
            offset,
            True,
            "a",
            [directory_id(1)],
        )
        assert harness.decision.events == [BrokerRegistered(broker_id=1, broker_epoch=offset)]

    @pytest.mark.rule("C2")
    def test_another_process_while_the_first_is_alive(self) -> None:
        harness = cluster(1)
        connected(harness, 1)
        assert harness.register(1, incarnation=2).error_code == E.DUPLICATE_BROKER_REGISTRATION
        harness.now_s += 8.9
        assert harness.register(1, incarnation=2).error_code == E.DUPLICATE_BROKER_REGISTRATION
        harness.now_s += 0.1
        assert harness.register(1, incarnation=2).error_code == E.NONE
        assert harness.image.brokers[1].fenced

    def test_the_same_process_again_keeps_its_epoch(self) -> None:
        harness = cluster(1)
        epoch = harness.image.brokers[1].epoch
        assert harness.register(1).broker_epoch == epoch
        assert not harness.image.brokers[1].fenced

    def test_a_broker_of_the_same_process_as_the_controller_need_not_wait(self) -> None:
        harness = Harness(local_broker_id=1)
        harness.join(1, 2)
        connected(harness, 2)
        harness.controller.activate(harness.image, [], harness.now_s)
        assert harness.register(1, incarnation=2).error_code == E.NONE
        assert harness.register(2, incarnation=2).error_code == E.DUPLICATE_BROKER_REGISTRATION

    @pytest.mark.rule("C2", "E6")
    def test_who_took_the_place_of_a_process_that_is_gone_need_not_wait(self) -> None:
        harness = with_topic(1, 2, 3)
        connected(harness, 1)
        harness.controller.fast_fence.connection_lost("heartbeats of 1", harness.now_s)
        before = harness.epoch(1)
        assert harness.register(1, incarnation=2).error_code == E.NONE
        assert harness.epoch(1) > before and harness.image.brokers[1].fenced
        assert 1 not in harness.partition().isr

    @pytest.mark.rule("C2")
    def test_a_controller_that_never_heard_of_the_process_before_goes_by_its_place(self) -> None:
        harness = cluster(1, 2)
        harness.controller.activate(harness.image, [], harness.now_s)
        assert harness.register(2, incarnation=2).error_code == E.NONE

    @pytest.mark.rule("C2")
    @pytest.mark.parametrize(
        "elsewhere",
        [
            {"log_dirs": [UUID(int=1077)]},
            {"log_dirs": []},
            {"listeners": [Listener(name="PLAINTEXT", host="elsewhere", port=9092)]},
        ],
    )
    def test_who_is_not_in_its_place_waits_for_the_session(self, elsewhere: dict[str, Any]) -> None:
        harness = cluster(1)
        assert harness.register(1, incarnation=2, **elsewhere).error_code == E.DUPLICATE_BROKER_REGISTRATION
        harness.now_s += 9.0
        assert harness.register(1, incarnation=2, **elsewhere).error_code == E.NONE

    @pytest.mark.rule("C2")
    def test_nobody_takes_the_place_of_the_broker_beside_the_controller(self) -> None:
        harness = Harness(local_broker_id=1)
        harness.join(1)
        assert harness.register(1, incarnation=2).error_code == E.DUPLICATE_BROKER_REGISTRATION

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ({"cluster_id": "another"}, E.INCONSISTENT_CLUSTER_ID),
            ({"features": []}, E.UNSUPPORTED_VERSION),
            ({"log_dirs": [UUID(int=9), UUID(int=9)]}, E.INVALID_REGISTRATION),
            ({"log_dirs": [directory_id(1)]}, E.INVALID_REGISTRATION),
        ],
    )
    def test_refusals(self, more: dict[str, Any], code: ErrorCode) -> None:
        harness = cluster(1)
        assert harness.send(registration(2, **more)).error_code == code
        assert harness.records == []


class TestHeartbeats:
    @pytest.mark.rule("C2")
    def test_unfenced_once_it_knows_of_its_registration(self) -> None:
        harness = Harness()
        epoch = harness.register(1).broker_epoch
        behind = harness.heartbeat(1, current_metadata_offset=epoch - 1)
        assert (behind.is_fenced, behind.is_caught_up, harness.records) == (True, False, [])
        asked = harness.heartbeat(1, want_fence=True)
        assert asked.is_fenced and harness.records == []
        answer = harness.heartbeat(1)
        assert (answer.is_fenced, answer.is_caught_up) == (False, True)
        assert harness.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1)]
        assert harness.decision.events == [
            BrokerUnfenced(broker_id=1, broker_epoch=epoch, reason=f"it replayed the metadata up to offset {epoch}")
        ]
        assert not harness.heartbeat(1).is_fenced and harness.records == []

    @pytest.mark.rule("C2")
    def test_a_stale_epoch(self) -> None:
        harness = cluster(1)
        assert harness.heartbeat(1, broker_epoch=99).error_code == E.STALE_BROKER_EPOCH
        request = BrokerHeartbeatRequest(broker_id=7, broker_epoch=1)
        assert harness.send(request).error_code == E.STALE_BROKER_EPOCH

    @pytest.mark.rule("C2")
    def test_silence_fences_one_broker_per_decision(self) -> None:
        harness = cluster(1, 2, 3)
        harness.now_s += 5
        harness.heartbeat(3)
        harness.now_s += 4
        for expected in (1, 2):
            decision = harness.controller.fence_stale_broker(next_offset=harness.next_offset, now_s=harness.now_s)
            assert decision is not None
            harness.take(decision)
            assert harness.image.brokers[expected].fenced
            assert isinstance(decision.events[0], BrokerFenced)
        assert harness.controller.fence_stale_broker(next_offset=0, now_s=harness.now_s) is None
        assert harness.controller.sessions.next_expiry_s() == 114.0

    @pytest.mark.rule("C2")
    def test_a_new_active_controller_grants_everyone_a_full_session(self) -> None:
        harness = cluster(1, 2)
        harness.now_s += 8
        harness.controller.activate(harness.image, [], harness.now_s)
        harness.now_s += 8.9
        assert harness.controller.fence_stale_broker(next_offset=0, now_s=harness.now_s) is None

    @pytest.mark.rule("C2")
    def test_the_broker_beside_a_new_controller_is_fenced_if_it_is_not_heard_of(self) -> None:
        """Its last process is gone, and this one may take long to load its logs: others could lead meanwhile."""
        harness = Harness(local_broker_id=1)
        harness.join(1, 2)
        harness.controller.activate(harness.image, [], harness.now_s)
        harness.now_s += 5
        harness.heartbeat(2)
        harness.now_s += 4
        decision = harness.controller.fence_stale_broker(next_offset=harness.next_offset, now_s=harness.now_s)
        assert decision is not None
        harness.take(decision)
        assert [broker.fenced for broker in harness.image.brokers.values()] == [True, False]

    @pytest.mark.rule("C2")
    def test_the_broker_beside_a_new_controller_goes_on_if_it_is_heard_of(self) -> None:
        harness = Harness(local_broker_id=1)
        harness.join(1)
        harness.controller.activate(harness.image, [], harness.now_s)
        harness.now_s += 5
        harness.heartbeat(1)
        harness.now_s += 8
        assert harness.controller.fence_stale_broker(next_offset=0, now_s=harness.now_s) is None
        assert harness.register(1, incarnation=2).error_code == E.DUPLICATE_BROKER_REGISTRATION


class TestElections:
    @pytest.mark.rule("C3")
    def test_a_fenced_leader_is_followed_by_the_next_in_order(self) -> None:
        harness = with_topic(1, 2, 3)
        harness.heartbeat(1, want_fence=True)
        assert state(harness) == (2, (2, 3), (), (), 1)
        assert [type(record) for record in harness.records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
        elected = harness.decision.events[-1]
        assert isinstance(elected, LeaderElected) and not elected.unclean
        assert (elected.leader, elected.leader_epoch) == (2, 1)
        # back again: joining the ISR is for its fetches to earn
        harness.heartbeat(1)
        assert state(harness) == (2, (2, 3), (), (), 1)

    @pytest.mark.rule("C5")
    def test_under_the_minimum_who_leaves_stays_eligible(self) -> None:
        harness = with_topic(1, 2, 3, min_insync_replicas="2")
        harness.heartbeat(3, want_fence=True)
        assert state(harness) == (1, (1, 2), (), (), 0)
        harness.heartbeat(2, want_fence=True)
        assert state(harness) == (1, (1,), (2,), (), 0)
        harness.heartbeat(1, want_fence=True)
        assert state(harness) == (-1, (), (1, 2), (1,), 1)
        # the first eligible one that is back leads, and the others stay eligible
        harness.heartbeat(3)
        assert state(harness)[0] == -1
        harness.heartbeat(2)
        assert state(harness) == (2, (2,), (1,), (), 2)

    @pytest.mark.rule("C5")
    def test_without_elr_the_last_member_stays_in_the_isr(self) -> None:
        harness = with_topic(1, 2)
        lower = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
        assert harness.send(UpdateFeaturesRequest(feature_updates=[lower])).error_code == 0
        harness.heartbeat(2, want_fence=True)
        harness.heartbeat(1, want_fence=True)
        assert state(harness) == (-1, (1,), (), (), 1)
        harness.heartbeat(2)
        assert state(harness)[0] == -1
        harness.heartbeat(1)
        assert state(harness) == (1, (1,), (), (), 2)

    @pytest.mark.rule("E6")
    def test_a_new_incarnation_never_goes_on_in_its_old_leader_epoch(self) -> None:
        harness = with_topic(1)
        epoch = harness.image.brokers[1].epoch
        harness.now_s += 10
        harness.register(1, incarnation=2, previous_broker_epoch=epoch)
        assert state(harness) == (-1, (), (1,), (1,), 1)
        harness.heartbeat(1)
        assert state(harness) == (1, (1,), (), (), 2)

    @pytest.mark.rule("C5")
    def test_after_an_unclean_restart_the_sole_replica_leads_again_and_says_so(self) -> None:
        harness = with_topic(1)
        harness.now_s += 10
        harness.register(1, incarnation=2)
        assert state(harness) == (-1, (), (), (1,), 1)
        harness.heartbeat(1)
        assert state(harness) == (1, (1,), (), (), 2)
        partition = harness.image.partition(T0)
        assert partition is not None and partition.leader_recovery_state is LeaderRecoveryState.RECOVERING
        elected = harness.decision.events[-1]
        assert isinstance(elected, LeaderElected) and elected.unclean

    @pytest.mark.rule("C5")
    def test_who_restarted_uncleanly_leaves_the_elr_too(self) -> None:
        harness = with_topic(1, 2, min_insync_replicas="2")
        harness.heartbeat(2, want_fence=True)
        assert state(harness) == (1, (1,), (2,), (), 0)
        harness.register(2, incarnation=2)
        assert state(harness) == (1, (1,), (), (), 0)

    def test_unregistering(self) -> None:
        harness = with_topic(1, 2)
        epoch = harness.image.brokers[1].epoch
        assert harness.send(UnregisterBrokerRequest(broker_id=1)).error_code == 0
        assert harness.records[-1] == UnregisterBrokerRecord(broker_id=1, broker_epoch=epoch)
        assert state(harness)[0] == 2 and set(harness.image.brokers) == {2}
        assert harness.send(UnregisterBrokerRequest(broker_id=1)).error_code == E.BROKER_ID_NOT_REGISTERED


class TestProducerIds:
    def test_blocks_of_a_thousand(self) -> None:
        harness = cluster(1)
        epoch = harness.image.brokers[1].epoch
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        blocks = [harness.send(request) for _ in range(3)]
        assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]
        assert harness.records == [ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=3000)]
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1)
        assert harness.send(stale).error_code == E.STALE_BROKER_EPOCH

    def test_the_last_ids(self) -> None:
        harness = cluster(1)
        harness.controller.replay([ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 1000)], Provenance(99, 1, 0))
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=harness.image.brokers[1].epoch)
        assert harness.send(request).error_code == E.UNKNOWN_SERVER_ERROR


class TestFeatures:
    @pytest.mark.parametrize(
        ("name", "level", "upgrade_type", "message"),
        [
            ("nope", 1, 1, "this feature does not exist"),
            ("kraft.version", 1, 1, "kraft.version cannot be changed"),
            ("metadata.version", 31, 1, "not between 7 and 30"),
            ("metadata.version", 0, 3, "not a valid level"),
            ("metadata.version", 20, 1, "a downgrade may lose metadata"),
            ("metadata.version", 20, 2, "a downgrade may lose metadata"),
            ("eligible.leader.replicas.version", 0, 1, "a downgrade may lose metadata"),
        ],
    )
    def test_refusals(self, name: str, level: int, upgrade_type: int, message: str) -> None:
        harness = cluster(1)
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        answer = harness.send(UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == E.INVALID_UPDATE_VERSION and message in answer.error_message
        assert harness.records == []

    def test_levels_move(self) -> None:
        harness = cluster(1)
        down = FeatureUpdateKey(feature="metadata.version", max_version_level=29, upgrade_type=3)
        assert harness.send(UpdateFeaturesRequest(feature_updates=[down], validate_only=True)).error_code == 0
        assert harness.records == []
        assert harness.send(UpdateFeaturesRequest(feature_updates=[down])).error_code == 0
        assert harness.image.features["metadata.version"] == 29
        up = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        assert harness.send(UpdateFeaturesRequest(feature_updates=[up])).error_code == 0
        assert harness.image.features["metadata.version"] == 30

    @pytest.mark.rule("C5")
    def test_with_an_elr_everybody_counts_by_one_minimum(self) -> None:
        """A leader with a smaller one of its own would commit what an eligible replica does not have."""

        def elr(level: int) -> None:
            how = UpgradeType.UPGRADE if level else UpgradeType.UNSAFE_DOWNGRADE
            update = FeatureUpdateKey(feature=ELR_VERSION, max_version_level=level, upgrade_type=how)
            assert harness.send(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0

        def minimum(broker: str, value: str | None) -> None:
            operation = Operation.DELETE if value is None else Operation.SET
            change = AlterableConfig(name=MIN_INSYNC_REPLICAS, config_operation=operation, value=value)
            resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[change])
            (answer,) = harness.send(IncrementalAlterConfigsRequest(resources=[resource])).responses
            assert answer.error_code == 0

        harness = cluster(1, 2, min_insync_replicas="2")
        elr(0)
        minimum("1", "1")
        minimum("", None)
        elr(1)
        assert harness.image.broker_configs(1) == {}
        assert harness.image.broker_configs(None)[MIN_INSYNC_REPLICAS] == "2"

    def test_every_broker_must_support_a_level(self) -> None:
        harness = cluster(1)
        request = registration(2)
        request.features[-1].max_supported_version = 29
        down = FeatureUpdateKey(feature="metadata.version", max_version_level=29, upgrade_type=3)
        harness.send(UpdateFeaturesRequest(feature_updates=[down]))
        assert harness.send(request).error_code == 0
        up = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
        answer = harness.send(UpdateFeaturesRequest(feature_updates=[up]))
        assert "broker 2 supports levels 7 to 29" in answer.error_message


@pytest.mark.rule("C1")
def test_two_controllers_fed_the_same_agree() -> None:
    def run() -> list[Any]:
        harness = with_topic(1, 2, 3)
        harness.heartbeat(2, want_fence=True)
        harness.heartbeat(2)
        return [harness.image, harness.records]

    first, second = run(), run()
    assert first == second and first[0] is not EMPTY_IMAGE
