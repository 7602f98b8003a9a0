"""One partition's part of a history, laid out so that what is as it should be costs a comparison of arrays."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.verify.history import FinalLog, History
from tidelog.verify.reads import Reads, Run
from tidelog.verify.sends import REFUSED, Sends
from tidelog.verify.values import FOREIGN, code_of, producer_of, sequence_of

NOWHERE: Final = -1


class Stray(NamedTuple):
    """Somebody saw `code` at `offset`, where the log in the end does not have it."""

    offset: int
    code: int
    time_ms: int | None
    # "reader 0", or "producer 3 was told"
    witness: str
    was_read: bool


class Evidence:
    """Built for one partition at a time and dropped: millions of records never stand side by side as objects."""

    def __init__(self, history: History, partition: int) -> None:
        self.partition = partition
        self.sends: dict[int, Sends] = history.sends_to(partition)
        self.reads: dict[int, Reads] = history.reads_of(partition)
        self.final: FinalLog = history.final.get(partition) or FinalLog(
            reads=Reads(partition), incomplete="the log was not read"
        )
        self.log = self.final.reads
        # In order of offsets, each offset once: what the log says more than once is compared like any other reading.
        self.runs = _disjoint(self.log.runs())
        self._run_offsets = [run.offset for run in self.runs]
        # Where each value lies in the end, by producer and sequence number; its first place if it has several.
        self.places: dict[int, array[int]] = {
            producer: array("q", [NOWHERE]) * len(sends) for producer, sends in self.sends.items()
        }
        # (code, offset) of values met again further on, and of values nobody sent.
        self.repeated: list[tuple[int, int]] = []
        self.unsent: list[tuple[int, int]] = []
        self._place_values()
        self.strays: list[Stray] = [*self._stray_reads(), *self._stray_acknowledgements()]

    def readers(self) -> Iterator[tuple[str, Reads]]:
        """Everybody who read, the final read last."""
        for reader, reads in self.reads.items():
            yield f"reader {reader}", reads
        yield "the final read", self.log

    def value_at(self, offset: int) -> int | None:
        """The value the log has at `offset` in the end."""
        found = bisect_right(self._run_offsets, offset) - 1
        if found < 0 or offset >= self.runs[found].end:
            return None
        return self.log.values[self.runs[found].first + offset - self.runs[found].offset]

    def place_of(self, code: int) -> int:
        """The offset of a value in the end, or NOWHERE."""
        places = self.places.get(producer_of(code)) if code != FOREIGN else None
        sequence = sequence_of(code)
        return places[sequence] if places is not None and sequence < len(places) else NOWHERE

    def was_sent(self, code: int) -> bool:
        sends = self.sends.get(producer_of(code)) if code != FOREIGN else None
        return sends is not None and sequence_of(code) < len(sends)

    def was_refused(self, code: int) -> bool:
        return self.was_sent(code) and self.sends[producer_of(code)].outcomes[sequence_of(code)] == REFUSED

    def is_idempotent(self, code: int) -> bool:
        return self.was_sent(code) and self.sends[producer_of(code)].idempotent

    def _place_values(self) -> None:
        for run in self.log.runs():
            for offset, code in enumerate(self.log.values[run.first : run.last], run.offset):
                if not self.was_sent(code):
                    self.unsent.append((code, offset))
                    continue
                places, sequence = self.places[producer_of(code)], sequence_of(code)
                if places[sequence] == NOWHERE:
                    places[sequence] = offset
                elif places[sequence] != offset:
                    self.repeated.append((code, offset))

    def _stray_reads(self) -> Iterator[Stray]:
        for who, reads in self.readers():
            for run in reads.runs():
                if self._holds(reads, run):
                    continue
                for index in range(run.first, run.last):
                    offset, code = run.offset + index - run.first, reads.values[index]
                    if self.value_at(offset) != code:
                        yield Stray(offset, code, reads.time_ms(index), who, was_read=True)

    def _holds(self, reads: Reads, run: Run) -> bool:
        """Whether the log has the whole run in one piece: the way it should be, compared at the speed of memory."""
        found = bisect_right(self._run_offsets, run.offset) - 1
        if found < 0 or run.end > self.runs[found].end:
            return False
        first = self.runs[found].first + run.offset - self.runs[found].offset
        return self.log.values[first : first + run.last - run.first] == reads.values[run.first : run.last]

    def _stray_acknowledgements(self) -> Iterator[Stray]:
        for producer, sends in self.sends.items():
            places = self.places[producer]
            if places == sends.outcomes:
                continue
            for sequence, offset in sends.acknowledgements():
                if offset >= 0 and places[sequence] != offset:
                    code = code_of(producer, sequence)
                    if self.value_at(offset) != code:
                        yield Stray(
                            offset,
                            code,
                            sends.times_ms[sequence],
                            f"the acknowledgement to producer {producer}",
                            was_read=False,
                        )


def _disjoint(runs: Iterator[Run]) -> list[Run]:
    kept: list[Run] = []
    end = 0
    for run in sorted(runs, key=lambda run: run.offset):
        overlap = max(0, end - run.offset)
        if overlap < run.last - run.first:
            kept.append(Run(run.first + overlap, run.last, run.offset + overlap, run.expected))
            end = run.end
    return kept
