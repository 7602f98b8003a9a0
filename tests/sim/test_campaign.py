"""Faults drawn from a seed strike a whole cluster, and there is peace at the end."""

import asyncio
import gc
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.client.producer import Producer
from tidelog.sim.campaign import Settings, plan_of, run_seed
from tidelog.sim.faults.kinds import KINDS, PROFILES
from tidelog.sim.workloads.writers import Writers
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.plain import Record

SHORT = Settings(seconds=10.0, mean_gap_s=0.5, least_faults=0, least_batches=0)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_node_serves_again_after_faults_of_one_profile(profile: str) -> None:
    outcome = run_seed(5, replace(SHORT, least_faults=3, least_batches=10, profiles=(profile,)))
    assert outcome.counts["all_serve"] == 1
    assert outcome.faults >= 3
    assert outcome.failure is None, outcome.failure.lines()


def test_a_seed_goes_on_until_enough_faults_struck_and_enough_was_acknowledged() -> None:
    settings = replace(SHORT, seconds=2.0, least_faults=10, least_batches=60)
    outcome = run_seed(4, settings)
    assert outcome.failure is None, outcome.failure.lines()
    # One that was armed may strike after the last that had to.
    assert outcome.faults in (10, 11)
    assert outcome.acknowledged >= 60
    # As long as it needs, no longer: what was drawn and not tried is no part of it.
    assert outcome.plan[-1].spare
    assert len(outcome.plan) < len(plan_of(4, settings))
    again = run_seed(4, settings, plan=outcome.plan)
    assert again.digest == outcome.digest


def test_a_seed_in_which_too_little_can_be_acknowledged_fails() -> None:
    settings = replace(SHORT, seconds=1.0, least_batches=10_000, quiet_timeout_s=5.0)
    failure = run_seed(4, settings).failure
    assert failure is not None
    assert failure.invariant == "Liveness"
    assert "of at least 10000 batches" in failure.what


def test_leaving_out_a_fault_leaves_the_others_as_they_were() -> None:
    lines: list[str] = []
    whole = run_seed(3, SHORT, sink=lines.append)
    shorter = run_seed(3, SHORT, plan=[fault for fault in whole.plan if fault.number != 0])
    assert shorter.digest != whole.digest
    assert [fault.kind for fault in shorter.plan] == [fault.kind for fault in whole.plan][1:]
    assert {fault.kind for fault in whole.plan} <= set(KINDS)
    assert len(lines) > len(whole.plan)


def test_a_world_that_is_over_leaves_nothing_behind() -> None:
    """Five thousand seeds in one process once took eight megabytes each."""
    settings = replace(SHORT, seconds=0.5)
    run_seed(1, settings)
    gc.collect()
    run_seed(2, settings)
    assert gc.collect() < 1000


def test_whatever_goes_wrong_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of many seeds must not end without saying in which one."""

    async def refused(self: Writers) -> None:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)

    async def lost(self: Writers) -> None:
        raise KeyError("orders")

    settings = replace(SHORT, seconds=0.5)
    monkeypatch.setattr(Writers, "check", refused)
    failure = run_seed(1, settings).failure
    assert failure is not None
    assert failure.invariant == "Liveness"
    assert "OFFSET_OUT_OF_RANGE" in failure.what
    monkeypatch.setattr(Writers, "check", lost)
    failure = run_seed(1, settings).failure
    assert failure is not None
    assert (failure.invariant, failure.what) == ("Unhandled", "KeyError: 'orders'")


def test_a_node_that_spins_ends_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once hung for ever, and the run never said in which seed."""

    unfence = BrokerLifecycle.unfence

    def beat(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(0.0, beat, loop)

    async def unfenced(self: BrokerLifecycle) -> None:
        beat(self._loop)
        await unfence(self)

    monkeypatch.setattr("tidelog.sim.loop.MOST_AT_ONCE", 10_000)
    monkeypatch.setattr(BrokerLifecycle, "unfence", unfenced)
    failure = run_seed(1, replace(SHORT, seconds=0.5)).failure
    assert failure is not None
    assert failure.invariant == "Liveness"
    assert re.search(r"^Spinning: 10000 callbacks at .*beat on 10\.0\.0\.\d", failure.what)


def test_once_faults_are_over_every_write_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, send = Writers.stop, Producer.send
    over = False

    async def stopped(self: Writers) -> None:
        nonlocal over
        await stop(self)
        over = True

    async def refused(self: Producer, topic: str, partition: int, records: Sequence[Record]) -> int:
        if over and partition == 2:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return await send(self, topic, partition, records)

    monkeypatch.setattr(Writers, "stop", stopped)
    monkeypatch.setattr(Producer, "send", refused)
    failure = run_seed(1, replace(SHORT, seconds=0.5)).failure
    assert failure is not None
    assert failure.invariant == "Liveness"
    assert failure.what.startswith("after the last fault, writer 0 failed in partition 2: ")
