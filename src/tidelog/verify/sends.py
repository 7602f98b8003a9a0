"""What one producer sent to one partition, and what became of each record: twelve bytes a record."""

from array import array
from collections.abc import Iterator
from typing import Final

# Outcomes that are not an offset.
PENDING: Final = -1
# It may or may not be in the log: a timeout, a broken connection.
UNKNOWN: Final = -2
# The broker refused it before it wrote anything: nobody may ever read it.
REFUSED: Final = -3
# Acknowledged without an offset: the broker knew a retry for a duplicate, and not any more where the first one lies.
ACKNOWLEDGED: Final = -4


class Sends:
    """Outcomes by sequence number. Invariant: `len(outcomes) == len(times_ms)`."""

    __slots__ = ("idempotent", "outcomes", "partition", "producer", "times_ms")

    def __init__(self, producer: int, partition: int, *, idempotent: bool) -> None:
        self.producer = producer
        self.partition = partition
        # Retries of a producer that is not may be written twice and out of order, and that is no bug.
        self.idempotent = idempotent
        self.outcomes = array("q")
        self.times_ms = array("I")

    def __len__(self) -> int:
        return len(self.outcomes)

    def sent(self, now_ms: int) -> int:
        """Counts one more record and returns its sequence number."""
        self.outcomes.append(PENDING)
        self.times_ms.append(now_ms)
        return len(self.outcomes) - 1

    def acknowledged(self, sequence: int, offset: int, now_ms: int) -> None:
        self.outcomes[sequence] = offset if offset >= 0 else ACKNOWLEDGED
        self.times_ms[sequence] = now_ms

    def failed(self, sequence: int, now_ms: int, *, refused: bool) -> None:
        self.outcomes[sequence] = REFUSED if refused else UNKNOWN
        self.times_ms[sequence] = now_ms

    def give_up(self, now_ms: int) -> None:
        """Nobody will tell any more what became of those that have no answer yet."""
        while PENDING in self.outcomes:
            self.failed(self.outcomes.index(PENDING), now_ms, refused=False)

    def count(self, outcome: int) -> int:
        return self.outcomes.count(outcome)

    def count_acknowledged(self) -> int:
        return len(self.outcomes) - self.count(PENDING) - self.count(UNKNOWN) - self.count(REFUSED)

    def acknowledgements(self) -> Iterator[tuple[int, int]]:
        """(sequence, offset) of what was acknowledged, in the order it was sent; the offset may be ACKNOWLEDGED."""
        return (
            (sequence, outcome)
            for sequence, outcome in enumerate(self.outcomes)
            if outcome >= 0 or outcome == ACKNOWLEDGED
        )
