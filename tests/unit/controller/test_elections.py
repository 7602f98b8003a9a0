"""Who leads (C3, C7), and what an election makes of ISR, ELR and recovery state (C5, C6)."""

import pytest
from tests.unit.controller.harness import Harness, create_topic, state, with_topic

from tidelog.controller.elections import Candidates, Election, elect
from tidelog.core.events import LeaderElected
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN
ALL = {1, 2, 3}


@pytest.mark.rule("C3")
@pytest.mark.rule("C7")
@pytest.mark.parametrize(
    ("leader", "isr", "elr", "last_known", "up", "election", "expected"),
    [
        pytest.param(2, (1, 2), (), (), ALL, ONLINE, (2, (1, 2), False), id="the leader stays"),
        pytest.param(2, (1, 2), (), (), ALL, PREFERRED, (1, (1, 2), False), id="the preferred one takes over"),
        pytest.param(2, (2, 3), (), (), ALL, PREFERRED, (2, (2, 3), False), id="but not from outside the ISR"),
        pytest.param(3, (2, 3), (), (), ALL, PREFERRED, (3, (2, 3), False), id="and then the leader stays"),
        pytest.param(-1, (2, 3), (), (), ALL, PREFERRED, (2, (2, 3), False), id="or the next in order leads"),
        pytest.param(2, (3, 1), (), (), ALL, ONLINE, (1, (3, 1), False), id="in order of assignment"),
        pytest.param(2, (2, 3), (), (), {1, 3}, ONLINE, (3, (2, 3), False), id="who is not acceptable is passed over"),
        pytest.param(-1, (), (3, 2), (), ALL, ONLINE, (2, (2,), False), id="from the ELR, in order of assignment"),
        pytest.param(-1, (), (3, 1), (), ALL, PREFERRED, (1, (1,), False), id="preferred from the ELR"),
        pytest.param(-1, (), (3,), (1,), {1, 2}, ONLINE, (-1, (), False), id="the ELR comes before the last known"),
        pytest.param(-1, (), (), (3,), {1, 3}, ONLINE, (3, (3,), True), id="the last known leader"),
        pytest.param(-1, (), (), (3,), {1, 3}, PREFERRED, (3, (3,), True), id="the last known leader, preferred"),
        pytest.param(-1, (), (), (3,), {1, 2}, ONLINE, (-1, (), False), id="only once it is acceptable"),
        pytest.param(-1, (), (), (4,), {1, 4}, ONLINE, (-1, (), False), id="only if still assigned"),
        pytest.param(-1, (), (), (2, 3), {2, 3}, ONLINE, (-1, (), False), id="only if it is alone"),
        pytest.param(-1, (), (), (3,), {1, 2}, UNCLEAN, (1, (1,), True), id="anybody, if allowed"),
        pytest.param(-1, (), (3,), (), {2}, UNCLEAN, (2, (2,), True), id="anybody, before a dead ELR"),
        pytest.param(-1, (), (3,), (), ALL, UNCLEAN, (3, (3,), False), id="a live ELR before anybody"),
        pytest.param(1, (1,), (), (), set(), UNCLEAN, (-1, (1,), False), id="nobody is there"),
    ],
)
def test_who_leads(
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
    up: set[int],
    election: Election,
    expected: tuple[int, tuple[int, ...], bool],
) -> None:
    candidates = Candidates(leader=leader, replicas=(1, 2, 3), isr=isr, elr=elr, last_known_elr=last_known)
    elected = elect(candidates, election, lambda replica: replica in up, elr_enabled=True)
    assert (elected.leader, elected.isr, elected.unclean) == expected


@pytest.mark.rule("C3")
def test_without_elr_only_the_isr_counts() -> None:
    candidates = Candidates(leader=-1, replicas=(1, 2), isr=(), elr=(1,), last_known_elr=(1,))
    assert elect(candidates, ONLINE, lambda _: True, elr_enabled=False).leader == -1


class TestUnclean:
    def test_it_marks_the_partition_and_tells_what_is_known(self) -> None:
        harness = with_topic(1, 2, 3, min_insync_replicas="2")
        enable_unclean(harness, "topic", "t")
        harness.fence(2, 3)
        assert state(harness) == (1, (1,), (3,), (), 0)
        # Broker 3 is fenced and 1 goes: 2, which has missed records, is back in time to be the only one there.
        harness.unfence(2)
        harness.fence(1)
        assert state(harness) == (2, (2,), (), (), 1)
        assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING
        (told,) = [each for each in harness.decision.events if isinstance(each, LeaderElected)]
        assert (told.topic, told.partition, told.leader, told.leader_epoch, told.unclean) == ("t", 0, 2, 1, True)
        assert told.reason == (
            "broker 1 fenced; unclean: acknowledged records that the new leader lacks are lost; complete before: 1,3, "
            "last known leader: unknown, leader epoch 0"
        )

    @pytest.mark.parametrize("scope", ["topic", "cluster", "file"])
    def test_it_is_allowed_by_topic_or_by_broker_config(self, scope: str) -> None:
        harness = with_topic(1, 2, unclean_leader_election_enable=str(scope == "file").lower())
        if scope != "file":
            enable_unclean(harness, scope, "t" if scope == "topic" else "")
        harness.fence(2)
        harness.unfence(2)
        harness.fence(1)
        assert state(harness)[:3] == (2, (2,), ())

    def test_by_default_nobody_leads_rather(self) -> None:
        harness = with_topic(1, 2)
        harness.fence(2)
        harness.unfence(2)
        harness.fence(1)
        assert state(harness) == (-1, (), (1,), (1,), 1)

    def test_the_timer_finds_what_a_changed_config_allows(self) -> None:
        harness = with_topic(1, 2)
        create_topic(harness, "other", [[1, 2]])
        harness.fence(2)
        harness.unfence(2)
        harness.fence(1)
        assert not _elect_unclean(harness) and harness.records == []
        enable_unclean(harness, "topic", "t")
        assert not _elect_unclean(harness)
        (record,) = harness.records
        assert isinstance(record, PartitionChangeRecord)
        assert (record.leader, record.isr, record.leader_recovery_state) == (2, [2], 1)
        assert record.eligible_leader_replicas == [] and record.last_known_elr == []
        # once is enough
        assert not _elect_unclean(harness) and harness.records == []


@pytest.mark.rule("C5")
class TestNewMinimumWhileNobodyLeads:
    def test_who_led_last_leads_when_it_is_back(self) -> None:
        harness = with_topic(1, 2)
        harness.fence(2)
        harness.fence(1)
        assert state(harness) == (-1, (), (1,), (1,), 1)
        set_config(harness, "topic", "t", "min.insync.replicas", "2")
        assert state(harness)[:4] == (-1, (), (), (1,))
        harness.unfence(2)
        assert state(harness)[0] == -1
        harness.unfence(1)
        assert state(harness)[:4] == (1, (1,), (), ())

    def test_who_led_last_and_is_there_leads_by_the_timer(self) -> None:
        harness = with_topic(1, 2, min_insync_replicas="2")
        harness.fence(2, 1)
        # It comes back without order: only the other one is known to have everything.
        harness.register(1, incarnation=2)
        harness.unfence(1)
        assert state(harness)[:4] == (-1, (), (2,), (1,))
        set_config(harness, "topic", "t", "min.insync.replicas", "1")
        assert state(harness)[:4] == (-1, (), (), (1,))
        assert not _elect_unclean(harness)
        assert state(harness)[:4] == (1, (1,), (), ())
        assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING


def enable_unclean(harness: Harness, scope: str, name: str) -> None:
    set_config(harness, scope, name, "unclean.leader.election.enable", "true")


def set_config(harness: Harness, scope: str, name: str, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=2 if scope == "topic" else 4,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    answer = harness.send(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0


def _elect_unclean(harness: Harness) -> bool:
    decision = harness.controller.elect_unclean_leaders(next_offset=harness.next_offset, now_s=harness.now_s)
    return bool(harness.take(decision))
