"""All kinds of faults, by name."""

from typing import Final

from tidelog.sim.faults import (
    clocks,
    control,
    crashes,
    failovers,
    network,
    process,
    races,
    reads,
    remade,
    stopped,
    storage,
    unwritten,
)
from tidelog.sim.faults.plan import FaultKind

KINDS: Final[dict[str, FaultKind]] = {
    kind.name: kind
    for module in (
        process,
        crashes,
        storage,
        reads,
        stopped,
        unwritten,
        network,
        clocks,
        control,
        races,
        failovers,
        remade,
    )
    for kind in module.KINDS
}
PROFILES: Final = tuple(dict.fromkeys(kind.profile for kind in KINDS.values()))
