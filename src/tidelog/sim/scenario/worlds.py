"""The worlds there are, by the name in a file's first line."""

from typing import Final

from tidelog.sim.scenario.quorum.world import QuorumWorld
from tidelog.sim.scenario.replication.world import ReplicationWorld
from tidelog.sim.scenario.runner import WorldFactory

WORLDS: Final[dict[str, WorldFactory]] = {"quorum": QuorumWorld, "replication": ReplicationWorld}
