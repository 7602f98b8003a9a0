"""Processes that die, stop and stand still, at moments that matter."""

import random
from typing import Final

from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.links import Cut
from tidelog.sim.machine import State

SHORT_S: Final = (0.05, 1.0)
"""Nobody's session ends."""
LONG_S: Final = (3.0, 14.0)
"""Some last longer than a session (9 s), some do not."""


def kill(field: Field, rng: random.Random) -> Applied | None:
    """Dies between two callbacks, comes back soon or late."""
    node_id = field.pick_to_kill(rng)
    if node_id is None:
        return None
    field.cluster.kill(node_id)
    return field.down(node_id, rng.uniform(*rng.choice((SHORT_S, LONG_S))))


def kill_all(field: Field, rng: random.Random) -> Applied | None:
    """Every process dies at once; the machines stay up, so that nothing written is lost."""
    nodes = field.running()
    if not nodes:
        return None
    for node_id in nodes:
        field.cluster.kill(node_id)
        field.hold_down(node_id)

    def start() -> None:
        for node_id in nodes:
            field.let_up(node_id)

    return Applied(what={"nodes": nodes}, nodes=tuple(nodes), lasts_s=rng.uniform(*SHORT_S), end=start)


def stop(field: Field, rng: random.Random) -> Applied | None:
    """Is asked to stop and does so in order."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    field.cluster.machine(node_id).ask_to_stop()
    return field.down(node_id, rng.uniform(1.0, 8.0))


def pause(field: Field, rng: random.Random) -> Applied | None:
    """Stands still past its session; comes back a zombie."""
    return _pause(field, rng, rng.uniform(*LONG_S))


def stall(field: Field, rng: random.Random) -> Applied | None:
    """Stands still for less than anybody waits."""
    return _pause(field, rng, rng.uniform(*SHORT_S))


def _pause(field: Field, rng: random.Random, lasts_s: float) -> Applied | None:
    node_id = field.pick(rng)
    if node_id is None:
        return None
    loop = field.cluster.machine(node_id).ports.loop
    loop.pause()
    # The loop and not the machine: if the process dies meanwhile there is nothing to resume.
    return Applied(what={"node": node_id}, nodes=(node_id,), lasts_s=lasts_s, end=loop.resume)


def fast_reboot(field: Field, rng: random.Random) -> Applied | None:
    """Dies and is back at once, while what it had sent is still on its way."""
    node_id = field.pick_to_kill(rng)
    if node_id is None:
        return None
    others = field.hosts(other for other in field.cluster.nodes if other != node_id)
    clog = Cut.one_way(field.hosts([node_id]), others)
    field.cluster.network.apply(clog)

    def reboot() -> None:
        if field.state(node_id) is not State.OFF:
            field.cluster.kill(node_id)
        field.start(node_id)
        field.cluster.loop.call_later(rng.uniform(0.0, 0.5), flush)

    def flush() -> None:
        if clog in field.cluster.network.cuts:
            field.cluster.network.heal(clog)

    return Applied(what={"node": node_id}, nodes=(node_id,), lasts_s=rng.uniform(0.01, 0.3), end=reboot)


KINDS: Final = (
    FaultKind(name="kill", profile="process", strike=kill, weight=2.0),
    FaultKind(name="kill_all", profile="process", strike=kill_all, weight=0.25),
    FaultKind(name="stop", profile="process", strike=stop),
    FaultKind(name="pause", profile="process", strike=pause),
    FaultKind(name="stall", profile="process", strike=stall),
    FaultKind(name="fast_reboot", profile="process", strike=fast_reboot),
)
