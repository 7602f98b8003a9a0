"""The world of replication: the same every time, its checks can fail, commands that make no sense are refused."""

from pathlib import Path

import pytest

from tidelog.core.ids import LeaderEpoch, TopicPartition
from tidelog.metadata.image import PartitionRegistration
from tidelog.sim.scenario.picture import Entry
from tidelog.sim.scenario.replication.invariants import (
    AcknowledgedIsKept,
    HighWatermarkHolds,
    InvariantBroken,
    LogsMatch,
    OneLeaderPerEpoch,
)
from tidelog.sim.scenario.replication.looking import BrokerView, IsrView, PartitionView, ReplicaView
from tidelog.sim.scenario.replication.messages import Network
from tidelog.sim.scenario.replication.process import Write
from tidelog.sim.scenario.replication.table import table
from tidelog.sim.scenario.replication.values import shortened, values
from tidelog.sim.scenario.replication.world import ReplicationWorld
from tidelog.sim.scenario.runner import replay, walk
from tidelog.sim.scenario.text import Command, Scenario, ScenarioError
from tidelog.sim.scenario.worlds import WORLDS

STORIES = Path(__file__).parents[2] / "scenarios" / "replication"
TP = TopicPartition("orders", 0)


def told(*lines: str) -> list[str]:
    """What the last of these commands led to, and the state then."""
    world = ReplicationWorld(Command.parse(lines[0], 1))
    found: list[str] = []
    for number, line in enumerate(lines[1:], 2):
        found = world.execute(Command.parse(line, number))
    return [*found, *world.conclude()]


def replica(*records: tuple[int, str], leads: bool = False, epoch: int = 0, high_watermark: int = 0) -> ReplicaView:
    """A log of (epoch, value)."""
    return ReplicaView(
        leads=leads,
        offline=False,
        leader=1,
        leader_epoch=LeaderEpoch(epoch),
        log_start_offset=0,
        log_end_offset=len(records),
        high_watermark=high_watermark,
        epochs=((0, 0),),
        entries=tuple(Entry(offset, of_epoch, value) for offset, (of_epoch, value) in enumerate(records)),
        isr=IsrView(isr=(1, 2), maximal=(1, 2, 3)) if leads else None,
    )


def view(*replicas: ReplicaView | None, epoch: int = 0) -> list[PartitionView]:
    brokers = [
        BrokerView(broker_id=number, running=each is not None, fenced=False, replica=each)
        for number, each in enumerate(replicas, 1)
    ]
    registration = PartitionRegistration(
        replicas=(1, 2, 3), directories=(), isr=(1, 2), elr=(3,), leader=1, leader_epoch=epoch
    )
    return [PartitionView(topic_partition=TP, registration=registration, brokers=tuple(brokers))]


# --- the same every time ---


@pytest.mark.parametrize("name", ["kip_279", "reassignment"])
def test_a_story_goes_the_same_way_twice(name: str) -> None:
    scenario = Scenario.parse((STORIES / f"{name}.txt").read_text(encoding="utf-8"))
    assert replay(scenario, WORLDS) == replay(scenario, WORLDS)


def test_a_story_can_be_walked_step_by_step() -> None:
    scenario = Scenario.parse((STORIES / "produce.txt").read_text(encoding="utf-8"))
    moments = walk(scenario, WORLDS)
    assert next(moments).step == scenario.steps[0]
    second = next(moments)
    assert second.step == scenario.steps[1]
    assert second.step.output == (*second.happened, *second.world.conclude())


# --- the checks can fail ---


def test_a_story_that_loses_what_was_acknowledged_has_to_say_so() -> None:
    text = (STORIES / "unclean_election.txt").read_text(encoding="utf-8")
    scenario = Scenario.parse(text.replace(" loss=expected", ""))
    with pytest.raises(InvariantBroken, match="lost 101 at 101, acknowledged with acks=all"):
        replay(scenario, WORLDS)


def test_what_was_acknowledged_is_looked_for_in_the_leaders_log_alone() -> None:
    kept = AcknowledgedIsKept(loss_expected=False)
    kept.on_ack(Write(topic_partition=TP, values=("a", "b"), acks=-1), 0)
    both = ((0, "a"), (0, "b"))
    kept.check(view(replica(*both, leads=True), replica()))
    # Whoever leads in another epoch than the controller's is no leader that it elected.
    kept.check(view(replica(leads=True, epoch=0), replica(*both, leads=True, epoch=1), epoch=1))
    with pytest.raises(InvariantBroken, match="lost b at 1"):
        kept.check(view(replica((0, "a"), leads=True)))


def test_with_acks_1_a_loss_is_told_once() -> None:
    kept = AcknowledgedIsKept(loss_expected=False)
    kept.on_ack(Write(topic_partition=TP, values=("a",), acks=1), 0)
    for _ in range(2):
        kept.check(view(replica(leads=True)))
    assert kept.lost == ["orders-0: lost a at offset 0, acknowledged with acks=1"]


def test_a_high_watermark_that_goes_back_or_beyond_is_found() -> None:
    holds = HighWatermarkHolds()
    log = ((0, "a"), (0, "b"))
    holds.check(view(replica(*log, leads=True, high_watermark=2)))
    holds.check(view(replica(*log, leads=True, epoch=1, high_watermark=1)))
    with pytest.raises(InvariantBroken, match="went back from 2"):
        holds.check(view(replica(*log, leads=True, high_watermark=1)))
    with pytest.raises(InvariantBroken, match="passed the log's end"):
        holds.check(view(replica(*log, high_watermark=3)))


def test_two_leaders_of_an_epoch_are_found_however_far_apart() -> None:
    one = OneLeaderPerEpoch()
    one.check(view(replica(leads=True), replica(leads=True, epoch=1)))
    with pytest.raises(InvariantBroken, match="1 and 2 lead in one epoch"):
        one.check(view(None, replica(leads=True)))


def test_two_records_of_an_epoch_at_one_offset_are_found() -> None:
    match = LogsMatch()
    match.check(view(replica((0, "a")), replica((1, "b"))))
    with pytest.raises(InvariantBroken, match="was a before"):
        match.check(view(None, replica((0, "c"))))


# --- the table ---


def test_the_table_marks_epochs_the_high_watermark_and_what_is_pending() -> None:
    led = replica(*((0, str(number)) for number in range(5)), (2, "x"), leads=True, epoch=2, high_watermark=4)
    assert table(view(led, replica((0, "0")), None, epoch=2)) == [
        "orders-0: leader 1 in epoch 2, replicas 1,2,3, ISR 1,2, ELR 3",
        "  1  leads in epoch 2      LEO 6  HW 4  ISR 1,2 [1,2,3]  epochs 0:0  log @0 0..3 | 4 @2 x",
        "  2  follows 1 in epoch 0  LEO 1  HW 0                   epochs 0:0  log | @0 0",
        "  3  down",
    ]


@pytest.mark.parametrize(
    ("written", "short"), [("a b", "a b"), ("0..2", "0..2"), ("0..1", "0 1"), ("7..9 b 1 3", "7..9 b 1 3"), ("", "")]
)
def test_numbers_in_a_row_are_shortened(written: str, short: str) -> None:
    assert " ".join(shortened([value for word in written.split() for value in values(word)])) == short


# --- links and commands ---


def test_a_node_is_cut_from_everyone_or_from_some() -> None:
    network = Network()
    network.cut([1])
    network.cut([2, 3])
    network.cut([2, "C"])
    assert network.is_cut(4, 1)
    network.heal([1])
    assert not network.is_cut(1, 4)
    assert network.is_cut(3, 2)
    network.heal([2, 3])
    assert not network.is_cut(2, 3)
    assert network.is_cut("C", 2)
    network.heal([2])
    assert not network.is_cut("C", 2)
    network.cut([1])
    network.heal([])
    assert not network.is_cut(1, 2)


def test_held_metadata_is_applied_when_the_story_says_so() -> None:
    begin = ("world replication brokers=1,2", "topic orders replicas=1,2")
    late = (*begin, "hold 2 metadata", "cut 1", "tick 10s")
    assert "  2  follows 1 in epoch 0" in "\n".join(told(*late))
    assert "  2  leads in epoch 1" in "\n".join(told(*late, "apply 2"))
    assert "  2  leads in epoch 1" in "\n".join(told(*late, "release 2"))


def test_a_killed_process_keeps_its_bytes_and_a_power_cut_does_not() -> None:
    begin = ("world replication brokers=1 loss=expected", "topic orders replicas=1", "produce 1 orders-0 a acks=1")
    assert "log @0 a |" in told(*begin, "kill 1", "tick 10s", "start 1")[-1]
    assert "LEO 0" in told(*begin, "power-cut 1", "tick 10s", "start 1")[-1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("vote 1", "unknown command"),
        ("fetch 9", "broker 9 does not exist"),
        ("start 1", "1 runs"),
        ("produce orders-0 a", "which broker"),
        ("produce 1 a", "which partition"),
        ("produce 1 orders-0", "name at least one value"),
        ("produce 1 orders-0 a ack=all", "unknown options: ack"),
        ("read 1 other-0", "has no such replica"),
        ("tick", "how long"),
        ("deliver", "name the messages"),
        ("drop 1->2", "no such message is in flight"),
        ("cut", "name one node"),
        ("hold 1", "metadata or AlterPartition"),
        ("elect orders-0", "preferred or unclean"),
        ("topic orders replicas=1", "TOPIC_ALREADY_EXISTS"),
    ],
)
def test_commands_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        told("world replication brokers=1,2", "topic orders replicas=1,2", text)


def test_what_is_down_is_not_asked() -> None:
    with pytest.raises(ScenarioError, match="2 is down"):
        told("world replication brokers=1,2", "kill 2", "fetch 2")


def test_unknown_options_of_the_world_are_refused() -> None:
    with pytest.raises(ScenarioError, match="unknown options: nodes"):
        ReplicationWorld(Command.parse("world replication nodes=1,2", 1))
