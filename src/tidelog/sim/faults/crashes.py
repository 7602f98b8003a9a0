"""Processes that die inside of one of their own disk operations: traps, that count when they spring."""

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from tidelog.quorum.snapshot_files import PART_SUFFIX, SUFFIX
from tidelog.sim.disk_faults import Trap
from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.plan import FaultKind
from tidelog.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT
from tidelog.storage.segment import LOG_SUFFIX

WAITS_S: Final = 15.0
MANY_BYTES: Final = 1 << 20
"""Of metadata: no run of a campaign decides as much, so that none makes a snapshot that waits for it."""
LOADING: Final = 100
"""About as many operations as a start takes."""
FIRST_SEGMENT: Final = f"/{0:020d}{LOG_SUFFIX}"

# Of which node, and which path.
OnlyIf = Callable[[int, str], bool]


def crash(
    field: Field,
    rng: random.Random,
    nodes: Iterable[int],
    operations: tuple[str, ...] = (),
    path_part: str = "",
    *,
    skip: int = 0,
    torn: bool = False,
    only_if: OnlyIf = lambda node_id, path: True,
    lasts_s: float = WAITS_S,
) -> Applied:
    """Whichever of the nodes first comes to such an operation dies in it, if the cluster can do without it then.

    Its supervisor starts it again. Half of the time its machine loses power with it, if it may lose data: what the
    operations before this one had not synced is gone.
    """
    moment, traps = Moment(), dict[int, Trap]()
    goes_dark = rng.random() < 0.5

    def remove() -> None:
        for node_id, trap in traps.items():
            field.cluster.machine(node_id).disk_faults.remove(trap)

    def set_on(node_id: int) -> None:
        machine = field.cluster.machine(node_id)
        kill = machine.kill_torn if torn else machine.kill_inside

        def spring(path: str) -> None:
            remove()
            dark = goes_dark and field.budget.may_lose(node_id, field.look())
            if dark:
                if node_id in field.brokers():
                    field.budget.lose(node_id, field.image)
                # When the process is gone: it is in the middle of a call now.
                field.cluster.loop.call_soon(machine.power_cut)
            moment.come(node=node_id, file=path, dark=dark)

        trap = machine.disk_faults.kill_at(kill, *operations, path_part=path_part, skip=skip)
        trap.only_if = lambda path: only_if(node_id, path) and field.can_spare(node_id)
        trap.on_spring = spring
        traps[node_id] = trap

    for node_id in nodes:
        set_on(node_id)
    what: dict[str, Any] = {"at": f"{'/'.join(operations) or 'any'} {path_part}".rstrip(), "skip": skip}
    return Applied(what=what, lasts_s=lasts_s, end=remove, moment=moment)


def crash_load(field: Field, rng: random.Random) -> Applied | None:
    """Dies, and again while it loads its logs."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    field.cluster.kill(node_id)
    nodes = field.cluster.nodes
    applied = crash(
        field, rng, [node_id], skip=rng.randrange(LOADING), only_if=lambda node, path: not nodes[node].serves
    )
    field.start(node_id)
    return applied


def crash_roll(field: Field, rng: random.Random) -> Applied | None:
    """Dies when it begins another segment of a log."""

    def is_new(node_id: int, path: str) -> bool:
        return not path.endswith(FIRST_SEGMENT) and not field.cluster.machine(node_id).disk.has(path)

    return crash(field, rng, field.cluster.nodes, ("open",), LOG_SUFFIX, skip=rng.randrange(3), only_if=is_new)


def crash_snapshot(field: Field, rng: random.Random) -> Applied | None:
    """Dies while it writes, or fetches, a snapshot of the metadata: before it begins, in the middle, before it is whole
    for good or has its name.
    """
    config = next(iter(field.cluster.nodes.values())).config
    if config.metadata_log_max_record_bytes_between_snapshots > MANY_BYTES:
        return None
    operation = rng.choice(("open", "append", "fsync", "rename"))
    return crash(
        field,
        rng,
        field.cluster.nodes,
        (operation,),
        SUFFIX + PART_SUFFIX,
        torn=operation == "append",
        lasts_s=2 * WAITS_S,
    )


def crash_checkpoint(field: Field, rng: random.Random) -> Applied | None:
    """Dies when it is about to write down its high watermarks."""
    return crash(field, rng, field.brokers(), ("write_atomic",), REPLICATION_OFFSET_CHECKPOINT, skip=rng.randrange(4))


def crash_truncation(field: Field, rng: random.Random) -> Applied | None:
    """Dies when it is about to cut a log, because a leader has another one."""
    return crash(
        field,
        rng,
        field.cluster.nodes,
        ("truncate", "remove"),
        LOG_SUFFIX,
        only_if=lambda node_id, path: field.cluster.nodes[node_id].serves,
        lasts_s=2 * WAITS_S,
    )


def crash_append(field: Field, rng: random.Random) -> Applied | None:
    """Dies with half an append written."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    return crash(field, rng, [node_id], ("append",), LOG_SUFFIX, skip=rng.randrange(30), torn=True)


KINDS: Final = (
    FaultKind(name="crash_load", profile="process", strike=crash_load, weight=0.7),
    FaultKind(name="crash_roll", profile="process", strike=crash_roll, weight=0.5),
    FaultKind(name="crash_snapshot", profile="process", strike=crash_snapshot, weight=1.0),
    FaultKind(name="crash_checkpoint", profile="process", strike=crash_checkpoint, weight=0.3),
    FaultKind(name="crash_truncation", profile="process", strike=crash_truncation, weight=0.5),
    FaultKind(name="crash_append", profile="process", strike=crash_append, weight=0.6),
)
