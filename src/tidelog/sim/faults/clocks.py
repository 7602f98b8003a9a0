"""Wall clocks that are wrong: nothing but timestamps may notice."""

import random
from typing import Final

from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind


def jump(field: Field, rng: random.Random) -> Applied | None:
    """Somebody sets a clock, up to a day forward or back; it stays wrong."""
    node_id = rng.choice(list(field.cluster.nodes))
    ms = rng.choice((-1, 1)) * rng.choice((1_000, 60_000, 3_600_000, 86_400_000)) * rng.randint(1, 10) // 10
    field.cluster.machine(node_id).clock.jump(ms)
    return Applied(what={"node": node_id, "ms": ms})


def skew(field: Field, rng: random.Random) -> Applied | None:
    """All clocks differ by up to a second."""
    by = {node_id: rng.randint(-1000, 1000) for node_id in field.cluster.nodes}
    for node_id, ms in by.items():
        field.cluster.machine(node_id).clock.jump(ms)
    return Applied(what={"ms": list(by.values())})


def drift(field: Field, rng: random.Random) -> Applied | None:
    """A clock runs up to a tenth too fast or too slow for a while."""
    node_id = rng.choice(list(field.cluster.nodes))
    clock, rate = field.cluster.machine(node_id).clock, round(rng.uniform(-0.1, 0.1), 4)
    clock.set_drift(rate)
    return Applied(
        what={"node": node_id, "drift": rate}, lasts_s=rng.uniform(1.0, 15.0), end=lambda: clock.set_drift(0.0)
    )


KINDS: Final = (
    FaultKind(name="clock_jump", profile="time", strike=jump, weight=0.5),
    FaultKind(name="clock_skew", profile="time", strike=skew, weight=0.3),
    FaultKind(name="clock_drift", profile="time", strike=drift, weight=0.5),
)
