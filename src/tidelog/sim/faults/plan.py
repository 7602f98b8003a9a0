"""Which fault strikes when: drawn from a seed before anything runs, so that a plan can be shortened and run again."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.sim.faults.field import Applied, Field

# Strikes, or finds that it cannot strike now.
Strike = Callable[[Field, random.Random], Applied | None]

ALL: Final = "all"
SPARE_FAULTS: Final = 40
"""So many are drawn for after the time: most faults that find nobody to strike are followed by one that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One way in which things go wrong. `weight` is how often it is drawn among the kinds of a run."""

    name: str
    profile: str
    strike: Strike
    weight: float = 1.0
    has_steps: bool = False
    """Its story needs a cluster that is well when it begins, and is spoilt by what strikes before it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """`number` names the fault's own randomness. A spare one strikes only if too few of those before it could."""

    number: int
    at_s: float
    kind: str
    spare: bool = False


def draw_plan(
    seed: int,
    kinds: Mapping[str, FaultKind],
    *,
    profiles: Sequence[str] = (ALL,),
    seconds: float = 30.0,
    mean_gap_s: float = 1.0,
) -> list[PlannedFault]:
    """Faults at random moments of the given time, one per `mean_gap_s` on average, and spare ones for after it."""
    chosen = [kind for kind in kinds.values() if ALL in profiles or kind.profile in profiles]
    if not chosen:
        known = ", ".join(sorted({kind.profile for kind in kinds.values()}))
        raise ValueError(f"unknown fault profile {', '.join(profiles)}; use {ALL}, {known}")
    rng = random.Random(f"{seed} plan")
    weights = [kind.weight for kind in chosen]
    plan: list[PlannedFault] = []
    at_s, spare = rng.expovariate(1 / mean_gap_s), 0
    while at_s < seconds or spare < SPARE_FAULTS:
        spare += at_s >= seconds
        kind = rng.choices(chosen, weights)[0].name
        plan.append(PlannedFault(number=len(plan), at_s=at_s, kind=kind, spare=at_s >= seconds))
        at_s += rng.expovariate(1 / mean_gap_s)
    return plan
