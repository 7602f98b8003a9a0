"""What an administrator asks for: a request that changes nothing is no fault."""

import json
import random
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.faults.control import reassign
from tidelog.sim.faults.plan import PlannedFault
from tidelog.sim.faults.races import Race, _move
from tidelog.sim.loop import VirtualLoop, run
from tidelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest


@pytest.mark.parametrize(("brokers", "replicas"), [(3, [1, 3, 2]), (2, [2, 1]), (4, [1, 3, 2])])
def test_replicas_are_moved_to_where_they_are_not(brokers: int, replicas: list[int]) -> None:
    asked: list[list[int]] = []

    def ask(rng: random.Random, request: AlterPartitionReassignmentsRequest, accepted: Any = None) -> None:
        (topic,) = request.topics
        (partition,) = topic.partitions
        assert partition.replicas is not None
        asked.append(partition.replicas)

    partition = SimpleNamespace(replicas=tuple(replicas), adding_replicas=(), removing_replicas=())
    topic = SimpleNamespace(name="orders", topic_id=uuid.UUID(int=1))
    field: Any = SimpleNamespace(
        partitions=lambda: [(topic, 0, partition)], brokers=lambda: list(range(1, brokers + 1)), ask=ask
    )
    for seed in range(50):
        assert reassign(field, random.Random(seed)) is not None
    assert replicas not in asked
    assert len({tuple(order) for order in asked}) > (1 if brokers > 2 else 0)


def test_a_replica_that_is_alone_has_nowhere_to_go() -> None:
    partition = SimpleNamespace(replicas=(1,), adding_replicas=(), removing_replicas=())
    topic = SimpleNamespace(name="orders", topic_id=uuid.UUID(int=1))
    field: Any = SimpleNamespace(partitions=lambda: [(topic, 0, partition)], brokers=lambda: [1])
    assert reassign(field, random.Random(1)) is None


def test_an_election_strikes_only_if_somebody_is_elected() -> None:
    def run(*kinds: str) -> list[dict[str, Any]]:
        lines: list[str] = []
        plan = [PlannedFault(number=number, at_s=1.0 + 6.0 * number, kind=kind) for number, kind in enumerate(kinds)]
        settings = Settings(seconds=9.0, least_faults=0, least_batches=0)
        outcome = run_seed(0, settings, plan=plan, sink=lines.append)
        assert outcome.failure is None, outcome.failure.lines()
        return [line for line in map(json.loads, lines) if line["source"] == "fault"]

    # Everybody's leader is the preferred one as long as nothing happens.
    idle = run("elect_preferred")
    assert [line["answer"] for line in idle if line["event"] == "asked"] == ["answered"]
    assert "elect_preferred" not in {line["event"] for line in idle}
    # Whoever is back first leads.
    assert "elect_preferred" in {line["event"] for line in run("kill_all", "elect_preferred")}


@pytest.mark.parametrize(
    ("elected", "has_moved"), [(SimpleNamespace(leader=2, replicas=(2, 1, 3)), True), (None, False)]
)
def test_a_topic_that_is_deleted_meanwhile_has_not_got_another_leader(elected: Any, has_moved: bool) -> None:
    loop = VirtualLoop()
    first = SimpleNamespace(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3), adding_replicas=(), removing_replicas=())
    partitions = {0: first}
    topics = {"churn-0": SimpleNamespace(partitions=partitions)}

    def ask(node_id: int, request: object, accepted: object) -> None:
        if elected is None:
            topics.clear()
        else:
            partitions[0] = elected

    field: Any = SimpleNamespace(
        look=lambda: SimpleNamespace(topic=topics.get), ask_broker=ask, cluster=SimpleNamespace(loop=loop)
    )
    assert run(_move(Race(field, random.Random(1)), "churn-0", 0, 2), loop=loop) == has_moved
