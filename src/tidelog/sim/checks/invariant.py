"""What an invariant is, and how it says that it does not hold."""

from typing import ClassVar

from tidelog.metadata.image import ClusterImage
from tidelog.sim.checks.look import PartitionLook


class InvariantBroken(AssertionError):
    """A promise that was not kept: which, and what was seen."""

    def __init__(self, invariant: "type[Invariant]", what: str) -> None:
        super().__init__(f"{invariant.name()}: {what}")
        self.invariant = invariant.name()
        self.statement = " ".join((invariant.__doc__ or "").split())
        self.what = what


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

    def broken(self, what: str) -> InvariantBroken:
        return InvariantBroken(type(self), what)
