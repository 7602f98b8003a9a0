"""Which fault strikes when: drawn from a seed before anything runs, so that a plan can be shortened and run again."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.sim.faults.field import Applied, Field

# Strikes, or finds that it cannot strike now.
Strike = Callable[[Field, random.Random], Applied | None]

ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One way in which things go wrong. `weight` is how often it is drawn among the kinds of a run."""

    name: str
    profile: str
    strike: Strike
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """`number` names the fault's own randomness."""

    number: int
    at_s: float
    kind: str


def draw_plan(
    seed: int,
    kinds: Mapping[str, FaultKind],
    *,
    profiles: Sequence[str] = (ALL,),
    seconds: float = 30.0,
    mean_gap_s: float = 1.0,
) -> list[PlannedFault]:
    """Faults at random moments of the given time, one per `mean_gap_s` on average."""
    chosen = [kind for kind in kinds.values() if ALL in profiles or kind.profile in profiles]
    if not chosen:
        known = ", ".join(sorted({kind.profile for kind in kinds.values()}))
        raise ValueError(f"no faults of profile {', '.join(profiles)}; there are {ALL}, {known}")
    rng = random.Random(f"{seed} plan")
    weights = [kind.weight for kind in chosen]
    plan: list[PlannedFault] = []
    at_s = rng.expovariate(1 / mean_gap_s)
    while at_s < seconds:
        plan.append(PlannedFault(number=len(plan), at_s=at_s, kind=rng.choices(chosen, weights)[0].name))
        at_s += rng.expovariate(1 / mean_gap_s)
    return plan
