"""What one partition has promised: everything below the highest high watermark that a leader of it ever exposed.

An era begins with an unclean election (or one of the last known leader): what was promised before counts no more.
"""

from dataclasses import dataclass, field

from tidelog.sim.checks.mirror import Batch, LogMirror


@dataclass(slots=True, eq=False)
class PartitionHistory:
    """One for each topic id and partition, and so a key for what else is kept of it.

    Invariant: `committed` holds the batches of [start, true_hw), by their base offsets."""

    era: int = 0
    first_epoch: int = 0
    """Leaders of earlier epochs belong to an earlier era."""
    true_hw: int = 0
    highest_hw: int = 0
    """That any leader ever exposed, in whichever era."""
    exposed_by: str = ""
    committed: dict[int, Batch] = field(default_factory=dict)
    acknowledged_end: int = 0
    values: dict[int, bytes] = field(default_factory=dict)
    """What clients were told stands at an offset."""
    latest: tuple[int, int] = (-1, -1)
    """The largest answer of ListOffsets(latest): leader epoch, offset."""
    trusted: dict[int, None] = field(default_factory=dict)
    """Brokers that have been in the ISR since the era began; what others have may be of an earlier one."""

    def begin_era(self, leader_epoch: int, leader: int) -> None:
        self.era += 1
        self.first_epoch = leader_epoch
        self.true_hw = self.acknowledged_end = 0
        self.exposed_by = ""
        self.committed = {}
        self.values = {}
        self.latest = (-1, -1)
        self.trusted = {leader: None}

    def expose(self, mirror: LogMirror, high_watermark: int, by: str) -> None:
        """A leader of this era has shown this high watermark: what it has below is what is promised."""
        if high_watermark <= self.true_hw:
            return
        batches = mirror.batches
        for number in range(mirror.number_of(self.true_hw), len(batches)):
            batch = batches[number]
            if batch.next_offset > high_watermark:
                break
            self.committed[batch.base_offset] = batch
        self.true_hw, self.exposed_by = high_watermark, by
