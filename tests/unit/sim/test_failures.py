"""What a run in which something broke tells: the invariant, its statement, the state around it, the last events."""

import asyncio
import re
from dataclasses import replace

import pytest

from tidelog.client.client import Client
from tidelog.controller import invariants
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.checks.failure import Failure
from tidelog.sim.checks.quorum import Quorum
from tidelog.sim.checks.watch import Watch
from tidelog.sim.workloads.groups import Group
from tidelog.sim.workloads.readers import Readers
from tidelog.sim.workloads.writers import Ledger

ORDERS = TopicPartition("orders", 1)
SHORT = Settings(seconds=0.5, least_faults=0, least_batches=0)


def broken() -> Failure:
    """Of a short run without faults in which something was planted."""
    failure = run_seed(0, SHORT, plan=[]).failure
    assert failure is not None
    assert failure.statement
    assert failure.events and all('"event":' in line for line in failure.events)
    told = failure.lines()
    assert told[0] == f"{failure.invariant} is broken: {failure.what}"
    assert told[1] == f"  it says: {failure.statement}"
    assert told[2 : 2 + len(failure.replicas)] == failure.replicas
    return failure


def shows_replicas(failure: Failure, partition: TopicPartition) -> bool:
    """All three, with log end and high watermark, below what the metadata has of the partition."""
    first, *rest = failure.replicas
    return first.startswith(f"{partition} committed at metadata offset ") and all(
        any(line.startswith(f"  broker {node} (start 1), running: LEO ") for line in rest) for node in (1, 2, 3)
    )


def test_metadata_that_contradicts_itself_is_shown_with_the_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(image: ClusterImage, config: NodeConfig, *, judged: ClusterImage | None = None) -> None:
        registration = image.partition(ORDERS)
        if registration is not None and image.provenance.offset > 20 and judged is not image:
            raise invariants.InvariantBroken(ORDERS, f"planted: {registration}")

    monkeypatch.setattr(invariants, "check_invariants", check)
    failure = broken()
    assert failure.invariant == "Metadata"
    assert failure.what.startswith("orders-1: planted: ")
    assert failure.replicas[0].startswith("orders-1 committed at metadata offset ")


def test_a_broken_quorum_is_shown_with_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_image(self: Quorum, node_id: int, image: ClusterImage) -> None:
        if image.topic("orders") is not None:
            raise self.broken("planted")

    monkeypatch.setattr(Quorum, "on_image", on_image)
    failure = broken()
    assert (failure.invariant, failure.what) == ("Quorum", "planted")
    assert [line.split(":")[0] for line in failure.replicas] == [f"node {node} (start 1)" for node in (1, 2, 3)]
    for line in failure.replicas:
        assert all(word in line for word in (" in epoch ", " log 0 to ", " HW ", '"votedId"')), line


def test_a_write_that_is_not_read_back_is_shown_with_the_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Ledger.compare

    def forgetful(self: Ledger, partition: int, found: dict[bytes, list[int]]) -> list[str]:
        return compare(self, partition, {} if partition == ORDERS.partition else found)

    monkeypatch.setattr(Ledger, "compare", forgetful)
    failure = broken()
    assert failure.invariant == "ReadBack"
    assert failure.what.startswith("lost-write: ")
    assert shows_replicas(failure, ORDERS)


def test_a_lost_commit_is_shown_with_the_replicas_that_should_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop(self: Group) -> None:
        self._office.watch.on_commit_lost(self._stored("watchers"), ORDERS, 7, 3)

    monkeypatch.setattr(Group, "stop", stop)
    failure = broken()
    assert failure.invariant == "GroupCommits"
    assert failure.what.startswith("the group had committed 7 of orders-1, and has 3 now")
    assert failure.replicas[0].startswith("__consumer_offsets-") and len(failure.replicas) > 3


def test_what_nobody_caught_is_shown_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop(self: Group) -> None:
        self._office.cluster.loop.call_soon(next, iter(()))
        await asyncio.sleep(0)

    monkeypatch.setattr(Group, "stop", stop)
    failure = run_seed(0, SHORT, plan=[]).failure
    assert failure is not None
    assert failure.invariant == "Unhandled"
    assert "StopIteration" in failure.what
    assert any(line.startswith("node 1 ") for line in failure.replicas)
    assert any(line.startswith("orders-0 committed") for line in failure.replicas)


def test_a_client_that_ended_in_the_middle_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(self: Readers, client: Client, partition: TopicPartition) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Readers, "_follow", follow)
    failure = run_seed(0, SHORT, plan=[]).failure
    assert failure is not None
    assert (failure.invariant, failure.what) == ("Unhandled", "KeyError: 'planted'")
    assert any(line.startswith("Traceback") for line in failure.events)
    assert any(line.startswith("orders-1 committed at metadata offset ") for line in failure.replicas)


def test_a_reader_that_does_not_get_on_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "end_of", lambda self, partition: 1_000_000)
    failure = run_seed(0, replace(SHORT, quiet_timeout_s=5.0), plan=[]).failure
    assert failure is not None
    assert failure.invariant == "Liveness"
    assert re.fullmatch(r"a reader of orders-\d has come to \d+ of 1000000", failure.what)
