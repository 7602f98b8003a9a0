"""A history: everything that producers were told and consumers read, and the log as it is in the end."""

from dataclasses import dataclass, field

from tidelog.verify.reads import Reads
from tidelog.verify.sends import Sends


@dataclass(slots=True, kw_only=True)
class FinalLog:
    """One partition read from its beginning to its end after everything was healed."""

    reads: Reads
    # What ListOffsets said: the log holds [start_offset, end_offset).
    start_offset: int = 0
    end_offset: int = 0
    # Why the reading ended before `end_offset`; None when it did not.
    incomplete: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEvent:
    """One fault, from the moment it struck until everything was in sync again."""

    kind: str
    node: int
    began_ms: int
    healed_ms: int
    whole_ms: int | None

    def covers(self, now_ms: int) -> bool:
        return self.began_ms <= now_ms and (self.whole_ms is None or now_ms <= self.whole_ms)


@dataclass(slots=True, kw_only=True)
class History:
    """Times are milliseconds since the run began."""

    topic: str
    partitions: int
    sends: dict[tuple[int, int], Sends] = field(default_factory=dict)
    # By reader and partition; a reader has an entry for every partition it reads.
    reads: dict[tuple[int, int], Reads] = field(default_factory=dict)
    final: dict[int, FinalLog] = field(default_factory=dict)
    faults: list[FaultEvent] = field(default_factory=list)
    leader_changes: int = 0
    # What was still missing when the cluster should have been whole; None when it was whole.
    not_whole: str | None = None

    def sends_to(self, partition: int) -> dict[int, Sends]:
        return {producer: sends for (producer, home), sends in sorted(self.sends.items()) if home == partition}

    def reads_of(self, partition: int) -> dict[int, Reads]:
        return {reader: reads for (reader, home), reads in sorted(self.reads.items()) if home == partition}

    def fault_at(self, now_ms: int | None) -> FaultEvent | None:
        if now_ms is None:
            return None
        return next((fault for fault in reversed(self.faults) if fault.covers(now_ms)), None)
