"""Controlled shutdown: leadership moves first, and everybody knows before the broker stops (C9)."""

from tests.unit.controller.harness import cluster, create_topic, state, with_topic

from tidelog.controller.sessions import BrokerSessions
from tidelog.core.events import BrokerFenced
from tidelog.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord


def test_leadership_moves_first() -> None:
    harness = with_topic(1, 2, 3)
    first = harness.heartbeat(1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert [type(record) for record in harness.records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert state(harness) == (2, (2, 3), (), (), 1)
    assert harness.image.brokers[1].in_controlled_shutdown
    assert [told.text() for told in harness.decision.events] == [
        f"broker 1 with epoch {harness.image.brokers[1].epoch} is shutting down: "
        "new leader or ISR in 1 of its partitions",
        "t-0: leader 1 to 2 in epoch 1, ISR [1,2,3] to [2,3], ELR []: broker 1 is shutting down",
    ]


def test_it_stops_once_everybody_who_stays_knows() -> None:
    harness = with_topic(1, 2, 3)
    moved_at = harness.next_offset + 1
    harness.heartbeat(1, want_shut_down=True)
    assert harness.next_offset - 1 == moved_at
    harness.heartbeat(2, current_metadata_offset=moved_at)
    harness.heartbeat(3, current_metadata_offset=moved_at - 1)
    waiting = harness.heartbeat(1, want_shut_down=True)
    assert (waiting.should_shut_down, waiting.is_fenced, harness.records) == (False, False, [])
    harness.heartbeat(3, current_metadata_offset=moved_at)
    last = harness.heartbeat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert harness.image.brokers[1].fenced and not harness.image.brokers[1].active
    assert isinstance(harness.decision.events[0], BrokerFenced)
    # it may register again at once
    assert harness.register(1, incarnation=2).error_code == 0


def test_who_also_goes_is_not_waited_for() -> None:
    harness = cluster(1, 2)
    create_topic(harness, "t", [[1], [2]])
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert not harness.heartbeat(2, want_shut_down=True, current_metadata_offset=0).should_shut_down
    assert harness.heartbeat(1, want_shut_down=True, current_metadata_offset=0).should_shut_down
    assert harness.heartbeat(2, want_shut_down=True, current_metadata_offset=0).should_shut_down


def test_who_leads_nothing_stops_at_once() -> None:
    harness = with_topic(1, 2)
    answer = harness.heartbeat(2, want_shut_down=True)
    assert answer.should_shut_down and answer.is_fenced
    assert state(harness) == (1, (1,), (), (), 0)


def test_what_cannot_be_moved_waits_for_its_return() -> None:
    """The only replica: nobody leads then, and the broker is eligible."""
    harness = with_topic(1)
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert state(harness) == (-1, (), (1,), (1,), 1)
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down
    harness.register(1, incarnation=2, previous_broker_epoch=harness.epoch(1))
    harness.unfence(1)
    assert state(harness) == (1, (1,), (), (), 2)


def test_nobody_makes_it_a_leader_again() -> None:
    harness = with_topic(1, 2)
    harness.heartbeat(1, want_shut_down=True)
    harness.fence(2)
    assert state(harness)[0] == -1


def test_a_fenced_broker_may_stop_at_once() -> None:
    harness = with_topic(1, 2)
    harness.fence(1)
    answer = harness.heartbeat(1, want_shut_down=True)
    assert answer.should_shut_down and harness.records == []


def test_a_broker_in_a_hurry() -> None:
    harness = with_topic(1, 2)
    answer = harness.heartbeat(1, want_shut_down=True, want_fence=True)
    assert answer.should_shut_down and answer.is_fenced
    assert state(harness)[0] == 2


def test_a_new_controller_waits_for_all_that_is_decided_by_then() -> None:
    harness = with_topic(1, 2)
    harness.heartbeat(1, want_shut_down=True)
    harness.controller.activate(harness.image, [], harness.now_s)
    behind = harness.next_offset - 2
    harness.heartbeat(2, current_metadata_offset=behind)
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    harness.heartbeat(2, current_metadata_offset=behind + 1)
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down


def test_what_a_broker_has_applied_does_not_go_back() -> None:
    sessions = BrokerSessions(9.0)
    sessions.touch(1, 0.0)
    sessions.touch(2, 0.0, metadata_offset=7)
    sessions.applied(2, 5)
    sessions.shuts_down(1, 7)
    assert sessions.may_stop(1)
