"""What can happen to a disk between an orderly end of its process and the next start."""

import posixpath
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.machine import End, Exit
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN

# Long enough for an orderly end, which waits for the leadership to be moved.
DOWN_S: Final = (2.0, 10.0)

# Does it, and says what a trace is to know; None: there is nothing to damage.
Damage = Callable[[], dict[str, Any] | None]


def after_stop(field: Field, rng: random.Random, node_id: int, damage: Damage, *, unclean: bool = True) -> Applied:
    """The node is asked to stop, and if it does so in order and in time its disk is damaged before it is started.

    `unclean`: nobody can tell from what is left that it was an orderly end.
    """
    moment, machine = Moment(), field.cluster.machine(node_id)
    applied = field.down(node_id, rng.uniform(*DOWN_S))
    over: list[None] = []

    def ended(told: Exit) -> None:
        if told.end is End.RETURNED and not over and (what := damage()) is not None:
            if unclean:
                field.budget.end_unclean(node_id, field.look())
            moment.come(**what)

    def end() -> None:
        over.append(None)
        field.let_up(node_id)

    machine.ended().add_done_callback(lambda future: ended(future.result()))
    machine.ask_to_stop()
    return replace(applied, end=end, moment=moment)


def lose_mark(field: Field, rng: random.Random) -> Applied | None:
    """The mark of an orderly end is missing, in one directory or in all."""
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    directories = list(field.cluster.nodes[node_id].config.log_dirs)
    chosen = directories if rng.random() < 0.5 else [rng.choice(directories)]

    def damage() -> dict[str, Any] | None:
        disk = field.cluster.machine(node_id).disk
        marks = [path for directory in chosen if disk.has(path := f"{directory}/{CLEAN_SHUTDOWN}")]
        for path in marks:
            disk.lose(path)
        return {"marks": [posixpath.dirname(path) for path in marks]} if marks else None

    return after_stop(field, rng, node_id, damage)


def stop_and_power_cut(field: Field, rng: random.Random) -> Applied | None:
    """The machine is switched off once its node has stopped: all that an orderly end promises has to be there."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    machine, directories = field.cluster.machine(node_id), field.cluster.nodes[node_id].config.log_dirs
    is_broker = node_id in field.brokers()

    def damage() -> dict[str, Any] | None:
        if is_broker and not all(machine.disk.has(f"{directory}/{CLEAN_SHUTDOWN}") for directory in directories):
            # A directory that failed was not flushed, and nothing is promised of it.
            return None
        unsynced = machine.disk.unsynced_bytes()
        machine.power_cut()
        return {"unsynced_bytes": unsynced}

    return after_stop(field, rng, node_id, damage, unclean=False)


def wipe_stopped(field: Field, rng: random.Random) -> Applied | None:
    """A log directory's disk is replaced by an empty one while the node is down for that."""
    node_id = _pick_loser(field, rng, field.brokers())
    if node_id is None:
        return None
    config = field.cluster.nodes[node_id].config
    directory = rng.choice([each for each in config.log_dirs if each != config.metadata_log_dir])

    def damage() -> dict[str, Any]:
        field.budget.lose(node_id, field.look())
        field.cluster.wipe(node_id, directory)
        return {"directory": directory}

    return after_stop(field, rng, node_id, damage)


def new_disk(field: Field, rng: random.Random) -> Applied | None:
    """All disks of a machine are replaced by empty ones, after an end of either kind: of a broker that has no vote to
    forget.
    """
    node_id = _pick_loser(field, rng, [broker for broker in field.brokers() if broker not in field.voters()])
    if node_id is None:
        return None

    def damage() -> dict[str, Any]:
        field.budget.lose(node_id, field.look())
        field.cluster.wipe(node_id)
        return {}

    if rng.random() < 0.5:
        return after_stop(field, rng, node_id, damage)
    field.cluster.kill(node_id)
    damage()
    return field.down(node_id, rng.uniform(*DOWN_S))


def _pick_loser(field: Field, rng: random.Random, among: list[int]) -> int | None:
    image = field.look()
    return field.pick_to_kill(rng, [node_id for node_id in among if field.budget.may_lose(node_id, image)])


KINDS: Final = (
    FaultKind(name="stop_and_power_cut", profile="disk", strike=stop_and_power_cut, weight=1.5),
    FaultKind(name="lose_mark", profile="disk", strike=lose_mark, weight=0.7),
    FaultKind(name="wipe_stopped", profile="disk", strike=wipe_stopped, weight=0.7),
    FaultKind(name="new_disk", profile="disk", strike=new_disk, weight=2.5),
)
