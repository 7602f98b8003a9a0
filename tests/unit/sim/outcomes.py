"""What a run may have been, made up."""

from tidelog.sim.campaign import Outcome
from tidelog.sim.checks.failure import Failure
from tidelog.sim.faults.plan import PlannedFault


def outcome_of(
    seed: int,
    plan: list[PlannedFault],
    failure: Failure | None = None,
    *,
    elections: int = 0,
    unclean: int = 0,
    **counts: int,
) -> Outcome:
    return Outcome(
        seed=seed,
        digest="",
        seconds=30.0,
        steps=1,
        counts=dict(counts),
        faults=len(plan),
        acknowledged=5,
        forgotten=0,
        read=7,
        commits=1,
        truncations=2,
        elections=elections,
        unclean=unclean,
        unhandled=[],
        plan=plan,
        failure=failure,
    )
