"""Faults of several steps come to where they hurt: shown by what nodes tell of themselves."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.faults.plan import PlannedFault

SETTINGS = Settings(seconds=8.0, least_faults=0, least_batches=0)


def told_of(kind: str, seed: int) -> list[dict[str, Any]]:
    """The trace of a run with this fault alone."""
    lines: list[str] = []
    outcome = run_seed(seed, SETTINGS, plan=[PlannedFault(number=0, at_s=2.0, kind=kind)], sink=lines.append)
    assert outcome.failure is None, outcome.failure.lines()
    assert outcome.faults == 1
    return [json.loads(line) for line in lines]


def refusals(trace: list[dict[str, Any]]) -> set[str]:
    return {line["error"] for line in trace if line["event"] == "isr_change_refused"}


def test_leaders_swing_and_logs_are_cut() -> None:
    """How long each leader has to write is drawn, so that not every swing leads to a cut."""
    cuts = 0
    for seed in (1, 4, 5):
        trace = told_of("leader_swings", seed)
        (fault,) = [line for line in trace if line["event"] == "leader_swings"]
        leaders = [
            line["leader"]
            for line in trace
            if line["source"] == "metadata"
            and line["event"] == "leader"
            and (line["topic"], line["partition"]) == (fault["topic"], fault["partition"])
        ]
        assert leaders == fault["leaders"]
        cuts += sum(line["event"] == "log_truncated" for line in trace)
    assert cuts > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_replica_that_rebooted_while_it_was_admitted_is_refused(seed: int) -> None:
    assert "INELIGIBLE_REPLICA" in refusals(told_of("reboot_while_admitted", seed))


def test_a_leader_whose_answer_was_lost_asks_again() -> None:
    """Unless it hears of the metadata before: how long either takes is drawn."""
    assert any("INVALID_UPDATE_VERSION" in refusals(told_of("lost_answer", seed)) for seed in range(3))


@pytest.mark.parametrize(("seed", "late"), [(1, True), (0, False)])
def test_in_a_calm_seed_nothing_else_strikes_before_it_is_over(seed: int, late: bool) -> None:
    kinds = ("clock_jump", "leader_swings", "clock_skew")
    plan = [PlannedFault(number=number, at_s=2.0, kind=kind) for number, kind in enumerate(kinds)]
    lines: list[str] = []
    outcome = run_seed(seed, replace(SETTINGS, seconds=4.0), plan=plan, sink=lines.append)
    assert outcome.failure is None, outcome.failure.lines()
    told = [json.loads(line) for line in lines]
    struck = {line["event"]: line["t"] for line in told if line["event"] in kinds}
    (armed,) = [line["t"] for line in told if line["event"] == "armed"]
    assert struck.keys() == set(kinds)
    assert (struck["clock_skew"] > struck["leader_swings"]) == late
    assert (struck["clock_skew"] > armed) == late
