"""How much may be lost: what the invariants assume, they assume of the faults as well.

At most (min ISR - 1) replicas of a partition lose data before they are re-admitted, and a voter never loses what it
has synced. Stricter than it need be: a replica that lost data counts against every partition it is assigned to, also
after it has left ISR and ELR.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.metadata.image import ClusterImage, TopicImage


@dataclass(slots=True)
class Budget:
    """Which nodes have lost data and are not re-admitted, with the broker epoch under which they lost it."""

    min_isr: Callable[[ClusterImage, TopicImage], int]
    lost: dict[int, int] = field(default_factory=dict)
    unclean: dict[int, int] = field(default_factory=dict)
    """The same of nodes that ended without order: they lost nothing, but nobody can know."""
    at_risk: dict[int, None] = field(default_factory=dict)
    """Nodes that may lose data at any time, as long as a fault lasts."""

    def may_lose(self, node_id: int, image: ClusterImage) -> bool:
        """Whether this node may lose data now."""
        self.forgive(image)
        for topic in image.topics_by_id.values():
            allowed = self.min_isr(image, topic) - 1
            for partition in topic.partitions.values():
                if node_id not in partition.replicas:
                    continue
                losers = [
                    node for node in partition.replicas if node in self.lost or node in self.at_risk or node == node_id
                ]
                if len(losers) > min(allowed, len(partition.replicas) - 1):
                    return False
        return True

    def lose(self, node_id: int, image: ClusterImage) -> None:
        broker = image.broker(node_id)
        self.lost[node_id] = -1 if broker is None else broker.epoch

    def leaves_nobody(self, node_id: int, image: ClusterImage) -> bool:
        """Whether an end without order would leave a partition only with replicas of which nobody can know what they
        lost. The last known leader is elected then, and whatever was promised before is no longer.
        """
        self.forgive(image)
        for topic in image.topics_by_id.values():
            for partition in topic.partitions.values():
                members = (*partition.isr, *partition.elr)
                if node_id in members and all(member in self.unclean or member == node_id for member in members):
                    return True
        return False

    def end_unclean(self, node_id: int, image: ClusterImage) -> None:
        broker = image.broker(node_id)
        self.unclean[node_id] = -1 if broker is None else broker.epoch

    def forgive(self, image: ClusterImage) -> None:
        """Re-admitted: registered anew since, unfenced, and in the ISR of everything it is assigned to."""
        for counted in (self.lost, self.unclean):
            for node_id, epoch in sorted(counted.items()):
                if self._is_back(node_id, epoch, image):
                    del counted[node_id]

    def _is_back(self, node_id: int, epoch: int, image: ClusterImage) -> bool:
        broker = image.broker(node_id)
        if broker is None or broker.epoch <= epoch or broker.fenced:
            return False
        registrations = (p for topic in image.topics_by_id.values() for p in topic.partitions.values())
        return all(node_id in p.isr for p in registrations if node_id in p.replicas)
