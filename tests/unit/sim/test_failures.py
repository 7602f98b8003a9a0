"""What a run in which something broke tells: the invariant, its statement, the state around it, the last events."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tidelog.broker import replica_fetchers
from tidelog.broker.node import NodeError
from tidelog.client.client import Client
from tidelog.client.consumer import Consumed, Consumer
from tidelog.client.producer import Producer
from tidelog.controller import invariants
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.checks.failure import Failure
from tidelog.sim.checks.quorum import Quorum
from tidelog.sim.checks.watch import Watch
from tidelog.sim.machine import End, Exit
from tidelog.sim.runner import run_quietly
from tidelog.sim.workloads.groups import Group
from tidelog.sim.workloads.readers import Readers
from tidelog.sim.workloads.writers import Ledger, Writers
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.plain import Record

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
    assert failure.what.startswith("the group committed 7 of orders-1, but now has 3")
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
    assert re.fullmatch(r"a reader of orders-\d is at \d+ of 1000000", failure.what)


@pytest.mark.parametrize(
    ("told", "excused"),
    [
        ("the disk is gone", False),
        ("EIO on /metadata/x: injected on fsync", True),
        ("ENOSPC on /data/a/x: injected on append", True),
        # It has another directory.
        ("EIO on /data/a/x: injected on append", False),
    ],
)
def test_a_node_that_gives_up_needs_a_reason_that_a_fault_gave_it(
    monkeypatch: pytest.MonkeyPatch, told: str, excused: bool
) -> None:
    stop = Group.stop

    async def stop_and_end(self: Group) -> None:
        machine = self._office.cluster.machine(1)
        machine.exits.append(Exit(end=End.RAISED, error=NodeError(told)))
        await stop(self)

    monkeypatch.setattr(Group, "stop", stop_and_end)
    failure = run_seed(0, SHORT, plan=[]).failure
    if excused:
        assert failure is None
    else:
        assert failure is not None
        assert (failure.invariant, failure.what) == ("Unhandled", f"node 1 ended with NodeError: {told}")


@pytest.mark.parametrize("asked", [False, True])
def test_a_node_that_ends_in_order_was_asked_to(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    stop = Group.stop

    async def stop_and_end(self: Group) -> None:
        self._office.cluster.machine(1).exits.append(Exit(end=End.RETURNED, asked=asked))
        await stop(self)

    monkeypatch.setattr(Group, "stop", stop_and_end)
    failure = run_seed(0, SHORT, plan=[]).failure
    assert (failure is None) == asked
    if failure is not None:
        assert failure.what == "node 1 ended without a request"


def test_an_exception_that_a_node_logs_and_gets_over_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, planted = replica_fetchers._FromLeader._exchange, list[None]()

    async def exchange_badly(self: Any, request: Any) -> None:
        await exchange(self, request)
        if not planted:
            planted.append(None)
            raise KeyError("planted")

    monkeypatch.setattr(replica_fetchers._FromLeader, "_exchange", exchange_badly)
    for quietly in (False, True):
        planted.clear()
        failure = (run_quietly(0, SHORT) if quietly else run_seed(0, SHORT, plan=[])).failure
        assert failure is not None
        assert failure.invariant == "Unhandled"
        assert failure.what.startswith("logged by tidelog.") and failure.what.endswith("KeyError: 'planted'")


def test_a_batch_that_is_damaged_without_a_reason_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = Consumer.poll

    async def poll_garbage(self: Consumer) -> list[Consumed]:
        if self.positions and max(self.positions.values()) > 2:
            raise WireError("planted")
        return await poll(self)

    monkeypatch.setattr(Consumer, "poll", poll_garbage)
    failure = run_seed(0, SHORT, plan=[]).failure
    assert failure is not None
    assert (failure.invariant, failure.what) == ("Unhandled", "WireError: planted")


def test_a_writer_may_hear_once_that_an_unclean_election_took_its_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1777 once: it had not written to the partition since."""
    confirm, refused, confirming = Writers.confirm, list[str](), list[None]()
    send = Producer.send

    async def send_refused(self: Producer, topic: str, partition: int, records: Sequence[Record]) -> int:
        value = bytes(records[0].value or b"")
        if confirming and partition == 1 and value.startswith(b"0-") and len(refused) < refusals:
            refused.append(value.decode())
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "planted")
        return await send(self, topic, partition, records)

    async def confirm_refused(self: Writers) -> None:
        confirming.append(None)
        await confirm(self)

    monkeypatch.setattr(Producer, "send", send_refused)
    monkeypatch.setattr(Writers, "confirm", confirm_refused)
    # Before the faults are over, and then.
    for eras, refusals, fails in (((0, 0), 1, True), ((1, 1), 1, True), ((0, 1), 1, False), ((0, 1), 2, True)):
        confirming.clear()
        refused.clear()
        monkeypatch.setattr(Watch, "era_of", lambda self, partition, eras=eras: eras[bool(confirming)])
        failure = run_seed(0, SHORT, plan=[]).failure
        assert len(refused) == refusals
        if fails:
            assert failure is not None and "writer 0 failed in partition 1" in failure.what
        else:
            assert failure is None, failure.lines()
