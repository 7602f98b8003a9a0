"""What an invariant is, and how it says that it does not hold."""

from typing import ClassVar

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.sim.checks.look import PartitionLook


class InvariantBroken(AssertionError):
    """A promise that was not kept: which, what was seen, and of which partition, if it is about one."""

    def __init__(self, invariant: "type[Invariant]", what: str, partition: TopicPartition | None = None) -> None:
        super().__init__(f"{invariant.name()}: {what}")
        self.invariant = invariant.name()
        self.statement = " ".join((invariant.__doc__ or "").split())
        self.what = what
        self.partition = partition


class Invariant:
    """Subclasses say in their docstring what must hold. State is per run."""

    number: ClassVar[int] = 0

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    def on_partition(self, look: PartitionLook) -> None:
        """Something about this partition or its replicas changed."""

    def on_metadata(self, before: ClusterImage, after: ClusterImage) -> None:
        """A batch was committed, or several that nobody published one by one."""

    def broken(self, what: str, partition: TopicPartition | None = None) -> InvariantBroken:
        return InvariantBroken(type(self), what, partition)
