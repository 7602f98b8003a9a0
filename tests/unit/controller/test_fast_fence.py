"""The fast fence: a process that is gone is fenced at once, one that may live is not (C2)."""

import pytest
from tests.unit.controller.harness import Harness, cluster, state, with_topic

from tidelog.controller.fast_fence import GRACE_S, REDIAL_S, TOGETHER_S, BrokerProcess, DialOutcome
from tidelog.core.events import BrokerFenced

REFUSED, REACHED, SILENT = DialOutcome.REFUSED, DialOutcome.REACHED, DialOutcome.SILENT


class World:
    """A harness whose brokers heartbeat over one connection each, and a network that answers as told."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.fast = harness.controller.fast_fence
        self.connections: dict[int, str] = {}
        for broker_id in harness.image.brokers:
            self.beat(broker_id)

    def process(self, broker_id: int) -> BrokerProcess:
        return BrokerProcess(broker_id, self.harness.epoch(broker_id))

    def beat(self, broker_id: int, connection: str = "first") -> None:
        self.harness.heartbeat(broker_id)
        self.fast.heard((broker_id, connection), self.process(broker_id))

    def lose(self, *broker_ids: int, connection: str = "first") -> None:
        for broker_id in broker_ids:
            self.fast.connection_lost((broker_id, connection), self.harness.now_s)

    def later(self, seconds: float = GRACE_S) -> None:
        self.harness.now_s += seconds

    def dial(self, outcome: DialOutcome = REFUSED, *, expect: list[int]) -> None:
        dialled = self.fast.dials(self.harness.now_s)
        assert [each.broker_id for each in dialled] == expect
        for each in dialled:
            self.fast.dialled(each, outcome, self.harness.now_s)

    def fence(self) -> int | None:
        """Who is fenced by one decision."""
        before = {each for each, broker in self.harness.image.brokers.items() if broker.fenced}
        decision = self.harness.controller.fence_refused_broker(
            next_offset=self.harness.next_offset, now_s=self.harness.now_s
        )
        if decision is None:
            return None
        self.harness.take(decision)
        (fenced,) = {each for each, broker in self.harness.image.brokers.items() if broker.fenced} - before
        return fenced


def three() -> World:
    return World(with_topic(1, 2, 3))


@pytest.mark.rule("C2")
def test_a_lost_connection_and_a_refusal_fence() -> None:
    world = three()
    world.lose(1)
    world.dial(expect=[])
    assert world.fast.next_due_s() == world.harness.now_s + GRACE_S
    world.later()
    world.dial(expect=[1])
    assert world.fence() == 1
    assert state(world.harness) == (2, (2, 3), (), (), 1)
    told = world.harness.decision.events[0]
    assert isinstance(told, BrokerFenced) and "refuses" in told.reason
    assert world.fence() is None and world.fast.next_due_s() is None


@pytest.mark.rule("C2")
@pytest.mark.parametrize("outcome", [REACHED, SILENT])
def test_who_may_live_has_until_the_session_timeout(outcome: DialOutcome) -> None:
    world = three()
    world.lose(1)
    world.later()
    world.dial(outcome, expect=[1])
    for wait_s in REDIAL_S if outcome is REACHED else ():
        assert world.fence() is None
        world.later(wait_s)
        world.dial(outcome, expect=[1])
    assert world.fence() is None and world.fast.next_due_s() is None
    world.later(9)
    assert world.harness.controller.fence_stale_broker(next_offset=0, now_s=world.harness.now_s) is not None


@pytest.mark.rule("C2")
def test_a_process_that_was_still_dying_is_fenced_at_the_next_look() -> None:
    world = three()
    world.lose(1)
    world.later()
    world.dial(REACHED, expect=[1])
    world.later(REDIAL_S[0])
    world.dial(REFUSED, expect=[1])
    assert world.fence() == 1


@pytest.mark.rule("C2")
@pytest.mark.parametrize("when", ["in the grace", "before the answer", "after the refusal"])
def test_a_heartbeat_ends_the_suspicion(when: str) -> None:
    world = three()
    world.lose(1)
    if when == "in the grace":
        world.beat(1, "second")
    world.later()
    if when == "before the answer":
        (process,) = world.fast.dials(world.harness.now_s)
        world.beat(1, "second")
        world.fast.dialled(process, REFUSED, world.harness.now_s)
    if when == "after the refusal":
        world.dial(expect=[1])
        # it need not be known over which connection
        world.harness.heartbeat(1)
    assert world.fast.dials(world.harness.now_s) == [] and world.fence() is None


@pytest.mark.rule("C2")
def test_only_the_last_connection_counts_and_only_if_the_broker_ended_it() -> None:
    world = three()
    world.beat(1, "second")
    world.lose(1)
    world.later()
    world.dial(expect=[])
    world.fast.connection_closed((1, "second"))
    world.lose(1, connection="second")
    world.lose(1, connection="never carried a heartbeat")
    world.later()
    world.dial(expect=[])


@pytest.mark.rule("C2")
def test_a_connection_of_an_earlier_epoch_says_nothing_of_the_next_process() -> None:
    world = three()
    old = world.process(1)
    world.harness.heartbeat(1, want_fence=True)
    world.harness.register(1, incarnation=2, previous_broker_epoch=old.epoch)
    world.harness.unfence(1)
    world.lose(1)
    world.later()
    world.dial(expect=[1])
    assert world.fence() is None
    assert not world.harness.image.brokers[1].fenced


@pytest.mark.rule("C2")
def test_half_of_the_brokers_together_are_left_to_the_session_timeout() -> None:
    world = three()
    world.lose(1)
    world.later(GRACE_S / 2)
    world.lose(2)
    world.later(GRACE_S / 2)
    world.dial(expect=[1])
    assert world.fence() is None
    world.later(TOGETHER_S * 2)
    assert world.fast.dials(world.harness.now_s) == [] and world.fence() is None, "not one by one either"


@pytest.mark.rule("C2")
def test_of_two_brokers_one_is_half() -> None:
    world = World(cluster(1, 2))
    world.lose(1)
    world.later()
    world.dial(expect=[1])
    assert world.fence() is None


@pytest.mark.rule("C2")
def test_one_broker_per_decision() -> None:
    world = World(cluster(1, 2, 3, 4, 5))
    world.lose(4, 2)
    world.later()
    world.dial(expect=[2, 4])
    assert [world.fence(), world.fence(), world.fence()] == [2, 4, None]


@pytest.mark.rule("C2")
def test_those_fenced_a_moment_ago_count_as_dropped_together() -> None:
    world = World(cluster(1, 2, 3, 4, 5))
    for broker_id, pause, expected in ((1, 0.0, 1), (2, TOGETHER_S / 4, 2), (3, TOGETHER_S / 4, None)):
        world.later(pause)
        world.lose(broker_id)
        world.later()
        world.dial(expect=[broker_id])
        assert world.fence() == expected


@pytest.mark.rule("C2")
def test_a_new_active_controller_dials_whom_it_has_not_heard_from() -> None:
    world = World(cluster(1, 2, 3, 4))
    world.harness.fence(4)
    world.harness.controller.activate(world.harness.image, [], world.harness.now_s)
    world.beat(2)
    world.dial(expect=[])
    world.later()
    dialled = world.fast.dials(world.harness.now_s)
    assert [each.broker_id for each in dialled] == [1, 3]
    world.fast.dialled(dialled[0], REFUSED, world.harness.now_s)
    world.fast.dialled(dialled[1], SILENT, world.harness.now_s)
    assert world.fence() is None, "others may be about to refuse"
    assert world.fast.next_due_s() == world.harness.now_s + GRACE_S
    world.later()
    assert world.fence() == 1
    assert not world.harness.image.brokers[3].fenced


@pytest.mark.rule("C2")
def test_a_new_active_controller_that_half_of_the_brokers_refuse_waits() -> None:
    world = World(cluster(1, 2, 3, 4))
    world.harness.controller.activate(world.harness.image, [], world.harness.now_s)
    world.beat(1)
    world.beat(2)
    world.later()
    world.dial(expect=[3, 4])
    world.later()
    assert world.fence() is None


def test_a_controller_that_resigns_suspects_nobody() -> None:
    world = three()
    world.lose(1)
    world.harness.controller.resign(world.harness.image)
    assert world.fast.next_due_s() is None
