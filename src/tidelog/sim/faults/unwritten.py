"""An fsync that failed, and a power cut that shows what it has not written. Of several steps, as in `races`."""

import errno
import random
from typing import Final

from tidelog.sim.disk_faults import Trap
from tidelog.sim.faults.field import Applied, Field
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.faults.races import Race
from tidelog.sim.machine import State
from tidelog.storage.segment import LOG_SUFFIX

FLUSHES_S: Final = 1.0
"""So long a flush of a node that runs is waited for: some have nothing to flush but when they stop."""
STOPS_S: Final = 3.0


def fsync_error_and_power_cut(field: Field, rng: random.Random) -> Applied | None:
    """An fsync of a log fails, its node stops in order, and then its machine loses power. What that fsync was to write
    is gone, whatever a second one has said: no recovery point and no mark of an orderly end may vouch for it.
    """
    image = field.look()
    node_id = field.pick_to_kill(rng, [broker for broker in field.brokers() if field.budget.may_lose(broker, image)])
    if node_id is None:
        return None
    race = Race(field, rng)
    directory = rng.choice(list(field.cluster.nodes[node_id].config.log_dirs))
    faults = field.cluster.machine(node_id).disk_faults
    trap = faults.fail(errno.EIO, "fsync", path_part=f"{directory}/")
    trap.only_if = lambda path: path.endswith(LOG_SUFFIX)
    field.hold_down(node_id)
    held = [node_id]

    def clean_up() -> None:
        faults.remove(trap)
        while held:
            if trap.sprung:
                # If it runs still: its directory is offline until it starts anew.
                field.bounce(node_id)
            field.let_up(held.pop())

    async def story() -> None:
        await _go_dark(race, node_id, trap)
        clean_up()

    what = {"node": node_id, "directory": directory}
    return field.tell_story(story(), clean_up, race.moment, what=what, nodes=(node_id,))


async def _go_dark(race: Race, node_id: int, trap: Trap) -> None:
    field, machine = race.field, race.field.cluster.machine(node_id)
    await race.until(lambda: trap.sprung, FLUSHES_S)
    if field.state(node_id) is not State.OFF:
        machine.ask_to_stop()
    if not await race.until(lambda: field.state(node_id) is State.OFF, STOPS_S):
        return
    image = field.look()
    if trap.sprung and field.budget.may_lose(node_id, image):
        unsynced = machine.disk.unsynced_bytes()
        field.budget.lose(node_id, image)
        # Nothing says that it ended in order.
        field.budget.end_unclean(node_id, image)
        machine.power_cut()
        race.moment.come(unsynced_bytes=unsynced)
        await race.pause(0.0, 1.0)


KINDS: Final = (
    FaultKind(
        name="fsync_error_and_power_cut",
        profile="disk",
        strike=fsync_error_and_power_cut,
        weight=1.5,
        has_steps=True,
    ),
)
