"""A seed that fails over a bug of the nodes is made smaller, and what is left fails again by itself."""

import json

import pytest

from tidelog.cli.app import run
from tidelog.replication.isr import PendingShrink
from tidelog.sim.campaign import Outcome, Settings
from tidelog.sim.runner import run_quietly, shrink

# Cuts alone lead to it, and what does not lead to it is soon over. All else is as the command has it.
SETTINGS = Settings(profiles=("network",), seconds=6.0)
FAULTS = 4
"""With fewer before it fails there is nothing to show."""
SEEDS = 20
RUNS = 8


@pytest.fixture
def forgets_leavers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tests/mutants/kip_497_shrink.patch: who is to leave the ISR counts no more, before that is committed."""
    whole = PendingShrink.__post_init__

    def without_leavers(self: PendingShrink) -> None:
        whole(self)
        object.__setattr__(self, "maximal_isr", self.proposed)

    monkeypatch.setattr(PendingShrink, "__post_init__", without_leavers)


def first_failure() -> Outcome:
    for seed in range(SEEDS):
        outcome = run_quietly(seed, SETTINGS)
        if outcome.failure is not None and len(outcome.plan) >= FAULTS:
            return outcome
    raise AssertionError(f"none of {SEEDS} seeds fails")


@pytest.mark.usefixtures("forgets_leavers")
def test_a_failing_seed_is_made_smaller_and_fails_again(capsys: pytest.CaptureFixture[str]) -> None:
    failed = first_failure()
    plan, outcome = shrink(failed, SETTINGS, runs=RUNS)
    assert len(plan) <= len(failed.plan) // 2
    assert outcome.failure is not None and failed.failure is not None
    assert outcome.failure.is_like(failed.failure)
    told = [
        *("sim", "--replay", str(failed.seed), "--minutes", str(SETTINGS.seconds / 60)),
        *("--faults", "network", "--only", ",".join(str(fault.number) for fault in plan), "--json"),
    ]
    assert run(told) == 1
    again = json.loads(capsys.readouterr().out)["failure"]
    assert (again["invariant"], again["what"]) == (outcome.failure.invariant, outcome.failure.what)
