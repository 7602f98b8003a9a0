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


def _crash_at(
    field: Field, rng: random.Random, operations: tuple[str, ...], path_part: str, skip: int
) -> Applied | None:
    """Dies inside an operation of its disk, when it next comes to one. Its supervisor starts it again."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    machine = field.cluster.machine(node_id)
    trap = machine.disk_faults.kill_at(machine.kill_inside, *operations, path_part=path_part, skip=skip)
    what = {"node": node_id, "at": f"{'/'.join(operations) or 'any'} {path_part}", "skip": skip}
    return Applied(what=what, lasts_s=10.0, end=lambda: machine.disk_faults.remove(trap))


def crash_load(field: Field, rng: random.Random) -> Applied | None:
    """Dies, and again while it loads its logs."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    machine = field.cluster.machine(node_id)
    field.cluster.kill(node_id)
    skip = rng.randrange(200)
    trap = machine.disk_faults.kill_at(machine.kill_inside, skip=skip)
    field.start(node_id)
    return Applied(
        what={"node": node_id, "skip": skip},
        nodes=(node_id,),
        lasts_s=5.0,
        end=lambda: machine.disk_faults.remove(trap),
    )


def crash_roll(field: Field, rng: random.Random) -> Applied | None:
    return _crash_at(field, rng, ("open", "rename"), ".log", rng.randrange(3))


def crash_snapshot(field: Field, rng: random.Random) -> Applied | None:
    return _crash_at(field, rng, ("write_atomic", "rename", "fsync"), "checkpoint", rng.randrange(4))


def crash_truncation(field: Field, rng: random.Random) -> Applied | None:
    return _crash_at(field, rng, ("truncate",), "", 0)


def crash_append(field: Field, rng: random.Random) -> Applied | None:
    """Dies with half an append written."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    machine = field.cluster.machine(node_id)
    trap = machine.disk_faults.kill_at(machine.kill_torn, "append", path_part=".log", skip=rng.randrange(30))
    return Applied(what={"node": node_id}, nodes=(node_id,), lasts_s=10.0, end=lambda: machine.disk_faults.remove(trap))


KINDS: Final = (
    FaultKind(name="kill", profile="process", strike=kill, weight=2.0),
    FaultKind(name="kill_all", profile="process", strike=kill_all, weight=0.1),
    FaultKind(name="stop", profile="process", strike=stop),
    FaultKind(name="pause", profile="process", strike=pause),
    FaultKind(name="stall", profile="process", strike=stall),
    FaultKind(name="fast_reboot", profile="process", strike=fast_reboot),
    FaultKind(name="crash_load", profile="process", strike=crash_load, weight=0.5),
    FaultKind(name="crash_roll", profile="process", strike=crash_roll, weight=0.5),
    FaultKind(name="crash_snapshot", profile="process", strike=crash_snapshot, weight=0.5),
    FaultKind(name="crash_truncation", profile="process", strike=crash_truncation, weight=0.5),
    FaultKind(name="crash_append", profile="process", strike=crash_append, weight=0.5),
)
