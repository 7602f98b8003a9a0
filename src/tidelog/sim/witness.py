"""Sees every committed metadata batch that any node publishes, and says when a promise ends.

An unclean election, or one of the last known leader, may lose what was acknowledged: Kafka says so, and the invariants
judge a partition since the last of them.
"""

from collections.abc import Callable
from typing import TypeAlias

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage, LeaderRecoveryState
from tidelog.sim.trace import Trace

# Topic, partition.
OnUnclean: TypeAlias = Callable[[str, int], None]


class Witness:
    """`SimCluster.on_metadata`. Each election is told once, by whichever node published it first."""

    def __init__(self, trace: Trace, on_unclean: OnUnclean) -> None:
        self._trace = trace
        self._on_unclean = on_unclean
        self._epochs: dict[tuple[str, int], int] = {}
        self._unclean: dict[tuple[str, int, int], None] = {}

    def __call__(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        for changed in delta.topics.values():
            name = changed.after.name
            for index, partition in changed.partitions.items():
                epoch = partition.leader_epoch
                if epoch > self._epochs.get((name, index), -1):
                    self._epochs[name, index] = epoch
                    self._trace.record(
                        "leader", partition=f"{name}-{index}", leader=partition.leader, epoch=epoch, isr=partition.isr
                    )
                key = (name, index, epoch)
                if partition.leader_recovery_state is LeaderRecoveryState.RECOVERING and key not in self._unclean:
                    self._unclean[key] = None
                    self._trace.record("unclean", partition=f"{name}-{index}", leader=partition.leader, epoch=epoch)
                    self._on_unclean(name, index)
