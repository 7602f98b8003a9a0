"""Tells a trace of every election and every change of an in-sync set, once, by whichever node published it first."""

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage, LeaderRecoveryState
from tidelog.sim.trace import METADATA, Trace


class Witness:
    """One of those who hear `SimCluster.on_metadata`."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Leader epoch, partition epoch, ISR.
        self._known: dict[tuple[str, int], tuple[int, int, tuple[int, ...]]] = {}

    def __call__(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        for changed in delta.topics.values():
            name = changed.after.name
            for index, partition in changed.partitions.items():
                epoch, version, isr = self._known.get((name, index), (-1, -1, ()))
                if partition.partition_epoch <= version:
                    continue
                self._known[name, index] = (partition.leader_epoch, partition.partition_epoch, partition.isr)
                if partition.leader_epoch > epoch:
                    unclean = partition.leader_recovery_state is LeaderRecoveryState.RECOVERING
                    self._trace.record(
                        METADATA,
                        "unclean" if unclean else "leader",
                        topic=name,
                        partition=index,
                        leader=partition.leader,
                        epoch=partition.leader_epoch,
                        replicas=partition.replicas,
                        isr=partition.isr,
                        elr=partition.elr,
                    )
                elif partition.isr != isr:
                    self._trace.record(
                        METADATA,
                        "isr",
                        topic=name,
                        partition=index,
                        replicas=partition.replicas,
                        isr=partition.isr,
                        elr=partition.elr,
                    )
