"""Many seeds, added up; and a failing one made smaller."""

import multiprocessing
from collections.abc import Iterator

import pytest
from tests.unit.sim.outcomes import outcome_of

from tidelog.sim import runner
from tidelog.sim.campaign import Outcome, Settings
from tidelog.sim.checks.failure import Failure
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import PlannedFault
from tidelog.sim.runner import run_seeds

SETTINGS = Settings(profiles=("time",))
PLAN = [PlannedFault(number=number, at_s=float(number), kind="clock_jump") for number in range(12)]


def test_totals_count_faults_by_kind_and_what_they_led_to() -> None:
    totals = runner.Totals()
    totals.add(outcome_of(1, PLAN, clock_jump=3, elections=5, unclean=1, isr=6))
    totals.add(outcome_of(2, PLAN, clock_jump=1, clock_skew=2, elections=1, snapshot_written=5, snapshot_fetched=2))
    assert totals.faults == {"clock_jump": 4, "clock_skew": 2}
    assert (totals.elections, totals.unclean, totals.isr_changes, totals.truncations) == (6, 1, 6, 4)
    assert (totals.snapshots, totals.fetched_snapshots) == (5, 2)
    assert (totals.acknowledged, totals.read, totals.seeds) == (10, 14, 2)


def test_a_kind_that_never_struck_is_found_in_enough_seeds() -> None:
    totals = runner.Totals()
    for seed in range(99):
        totals.add(outcome_of(seed, PLAN, clock_jump=1, clock_skew=1))
    assert totals.never_happened(SETTINGS) == []
    totals.add(outcome_of(99, PLAN))
    assert totals.never_happened(SETTINGS) == ["clock_drift"]
    led_to = {"elections", "unclean elections", "ISR changes"}
    led_to |= {"snapshots of the metadata", "snapshots that were fetched"}
    assert set(totals.never_happened(Settings())) == {*KINDS, *led_to} - {"clock_jump", "clock_skew"}


def test_totals_of_several_runs_are_added_up() -> None:
    whole, first, second = runner.Totals(), runner.Totals(), runner.Totals()
    for seed in (1, 2):
        first.add(outcome_of(seed, PLAN, clock_jump=3, elections=4))
        whole.add(outcome_of(seed, PLAN, clock_jump=3, elections=4))
    second.add(outcome_of(3, PLAN, clock_skew=2, isr=6))
    whole.add(outcome_of(3, PLAN, clock_skew=2, isr=6))
    first.merge(second)
    assert first == whole


def test_an_interrupt_does_not_wait_for_the_seeds_in_progress() -> None:
    """Each of these seeds would run for hours."""

    def interrupted() -> Iterator[int]:
        yield 0
        yield 1
        raise KeyboardInterrupt

    others = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        next(run_seeds(interrupted(), Settings(seconds=1e6), processes=2))
    assert not set(multiprocessing.active_children()) - others


def test_a_failing_plan_is_reduced_to_the_faults_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {3, 8}

    def run_seed(seed: int, settings: Settings, *, plan: list[PlannedFault]) -> Outcome:
        breaks = needed <= {fault.number for fault in plan}
        return outcome_of(seed, plan, Failure(invariant="LogMatching", what="") if breaks else None)

    monkeypatch.setattr(runner, "run_seed", run_seed)
    failed = outcome_of(7, PLAN, Failure(invariant="LogMatching", what=""))
    plan, outcome = runner.shrink(failed, SETTINGS)
    assert {fault.number for fault in plan} == needed
    assert outcome.failure is not None


def test_another_invariant_is_another_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_seed(seed: int, settings: Settings, *, plan: list[PlannedFault]) -> Outcome:
        return outcome_of(seed, plan, Failure(invariant="Liveness", what=""))

    monkeypatch.setattr(runner, "run_seed", run_seed)
    plan, _ = runner.shrink(outcome_of(7, PLAN, Failure(invariant="LogMatching", what="")), SETTINGS)
    assert plan == PLAN


def test_faults_planned_for_after_the_failure_are_left_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def run_seed(seed: int, settings: Settings, *, plan: list[PlannedFault]) -> Outcome:
        tried.append(len(plan))
        return outcome_of(seed, plan)

    monkeypatch.setattr(runner, "run_seed", run_seed)
    late = [*PLAN, PlannedFault(number=99, at_s=31.0, kind="clock_skew")]
    plan, _ = runner.shrink(outcome_of(7, late, Failure(invariant="LogMatching", what="")), SETTINGS, runs=5)
    assert plan == PLAN
    assert len(tried) == 5


@pytest.mark.parametrize(
    ("invariant", "what", "same"),
    [
        ("Liveness", "orders-0 on 2: LEO 12 HW 7, the leader has LEO 12", True),
        ("Liveness", "node 1 is not serving", False),
        ("Unhandled", "orders-0 on 2: LEO 12 HW 7, the leader has LEO 12", False),
    ],
)
def test_of_broad_failures_also_what_was_seen_is_compared(invariant: str, what: str, same: bool) -> None:
    seen = Failure(invariant="Liveness", what="orders-1 on 3: LEO 9 HW 9, the leader has LEO 310")
    assert Failure(invariant=invariant, what=what).is_like(seen) == same
    narrow = Failure(invariant="LogMatching", what="orders-0: offset 3")
    assert narrow.is_like(Failure(invariant="LogMatching", what="all is different"))
