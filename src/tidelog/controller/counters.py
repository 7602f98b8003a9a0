"""Numbers of elections that only grow (O3), the same on every controller: counted from what is committed."""

from dataclasses import dataclass

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage, LeaderRecoveryState


@dataclass(slots=True)
class ElectionCounters:
    """Since this node started, as far as it has replayed; elections that came with a snapshot are not among them."""

    unclean_leader_elections: int = 0

    def on_metadata(self, image: ClusterImage, delta: MetadataDelta) -> None:
        """Every unclean election marks the partition, and begins a leader epoch (C6)."""
        for topic in delta.topics.values():
            for index, after in topic.partitions.items():
                before = topic.previous(index)
                if (
                    before is not None
                    and after.leader_recovery_state is LeaderRecoveryState.RECOVERING
                    and after.leader_epoch > before.leader_epoch
                ):
                    self.unclean_leader_elections += 1
