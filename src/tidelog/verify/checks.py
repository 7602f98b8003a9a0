"""What a history may not show. Each check is a class with a name (Jepsen's where it has one) and a plain statement.

All are pure over one partition's evidence. What happens once healthy costs nothing but a comparison; a check yields one
violation per broken fact, and the caller counts them and keeps the first few.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tidelog.verify.evidence import NOWHERE, Evidence, Stray
from tidelog.verify.reads import Reads
from tidelog.verify.sends import ACKNOWLEDGED, PENDING, REFUSED
from tidelog.verify.values import code_of, producer_of, sequence_of, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken fact: where, with which offsets and values, and when it was seen (ms since the run began)."""

    check: str
    partition: int
    detail: str
    offsets: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    time_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "partition": self.partition,
            "detail": self.detail,
            "offsets": list(self.offsets),
            "values": list(self.values),
            "time_ms": self.time_ms,
        }


class Check:
    """One named property of a partition's history."""

    name: ClassVar[str]
    statement: ClassVar[str]
    # Nothing can be said about a log that was not read to its end.
    needs_final_log: ClassVar[bool] = True

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        raise NotImplementedError

    def _found(
        self,
        evidence: Evidence,
        detail: str,
        *,
        offsets: tuple[int, ...] = (),
        codes: tuple[int, ...] = (),
        time_ms: int | None = None,
    ) -> Violation:
        return Violation(
            check=self.name,
            partition=evidence.partition,
            detail=detail,
            offsets=offsets,
            values=tuple(words(code) for code in codes),
            time_ms=time_ms,
        )


class LostWrite(Check):
    name = "lost-write"
    statement = "an acknowledged value is in the log"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for producer, sends in evidence.sends.items():
            places = evidence.places[producer]
            for sequence, offset in sends.acknowledgements():
                if places[sequence] == NOWHERE:
                    code = code_of(producer, sequence)
                    told = f"at offset {offset}" if offset >= 0 else "without an offset"
                    yield self._found(
                        evidence,
                        f"{words(code)} was acknowledged {told} and is not in the log",
                        offsets=(offset,) if offset >= 0 else (),
                        codes=(code,),
                        time_ms=sends.times_ms[sequence],
                    )


class AbortedRead(Check):
    name = "aborted-read"
    statement = "a rejected value is never read"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for stray in evidence.strays:
            if stray.was_read and evidence.was_refused(stray.code):
                yield self._refused(evidence, stray.code, stray.offset, stray.time_ms, stray.witness)
        for producer, sends in evidence.sends.items():
            if not sends.count(REFUSED):
                continue
            for sequence, outcome in enumerate(sends.outcomes):
                place = evidence.places[producer][sequence]
                if outcome == REFUSED and place != NOWHERE:
                    yield self._refused(
                        evidence, code_of(producer, sequence), place, sends.times_ms[sequence], "the final read"
                    )

    def _refused(self, evidence: Evidence, code: int, offset: int, time_ms: int | None, who: str) -> Violation:
        return self._found(
            evidence,
            f"{words(code)} was rejected, but {who} found it at offset {offset}",
            offsets=(offset,),
            codes=(code,),
            time_ms=time_ms,
        )


class UnsentRead(Check):
    name = "unsent-read"
    statement = "every read value was sent to that partition in this run, and is intact"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for code, offset in evidence.unsent:
            detail = f"{words(code)} at offset {offset}, but no producer sent it"
            yield self._found(evidence, detail, offsets=(offset,), codes=(code,))
        for stray in evidence.strays:
            if not evidence.was_sent(stray.code):
                yield self._found(
                    evidence,
                    f"{stray.witness} found {words(stray.code)} at offset {stray.offset}, but no producer sent it",
                    offsets=(stray.offset,),
                    codes=(stray.code,),
                    time_ms=stray.time_ms,
                )


class InconsistentOffsets(Check):
    name = "inconsistent-offsets"
    statement = "an offset has one value, in every read and every acknowledgement"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        by_offset: dict[int, list[Stray]] = {}
        for stray in evidence.strays:
            by_offset.setdefault(stray.offset, []).append(stray)
        for offset, strays in sorted(by_offset.items()):
            seen = dict.fromkeys(stray.code for stray in strays)
            final = evidence.value_at(offset)
            if final is not None:
                seen[final] = None
            if len(seen) < 2:
                continue
            told = "; ".join(
                f"{words(code)} ({next((s.witness for s in strays if s.code == code), 'the log in the end')})"
                for code in seen
            )
            yield self._found(
                evidence, f"offset {offset}: {told}", offsets=(offset,), codes=tuple(seen), time_ms=strays[0].time_ms
            )


class Duplicate(Check):
    name = "duplicate"
    statement = "a value of an idempotent producer has one offset"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        offsets: dict[int, dict[int, int | None]] = {}
        for code, offset in evidence.repeated:
            offsets.setdefault(code, {})[offset] = None
        for stray in evidence.strays:
            offsets.setdefault(stray.code, {}).setdefault(stray.offset, stray.time_ms)
        for code, places in sorted(offsets.items()):
            if not evidence.is_idempotent(code):
                continue
            if evidence.place_of(code) != NOWHERE:
                places.setdefault(evidence.place_of(code), None)
            if len(places) > 1:
                times = [time_ms for time_ms in places.values() if time_ms is not None]
                yield self._found(
                    evidence,
                    f"{words(code)} was seen at offsets {', '.join(map(str, sorted(places)))}",
                    offsets=tuple(sorted(places)),
                    codes=(code,),
                    time_ms=min(times, default=None),
                )


class PrecommittedRead(Check):
    name = "precommitted-read"
    statement = "a value that a consumer read stays in the log"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for stray in evidence.strays:
            if stray.was_read and evidence.was_sent(stray.code) and evidence.place_of(stray.code) == NOWHERE:
                yield self._found(
                    evidence,
                    f"{stray.witness} found {words(stray.code)} at offset {stray.offset}; it is no longer in the log",
                    offsets=(stray.offset,),
                    codes=(stray.code,),
                    time_ms=stray.time_ms,
                )


class PollSkip(Check):
    name = "poll-skip"
    statement = "a consumer skips no offset that has a record"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for who, reads in evidence.readers():
            for run in reads.runs():
                if run.offset > run.expected and _any_record(evidence, run.expected, run.offset):
                    yield self._found(
                        evidence,
                        f"{who} expected offset {run.expected} and got {run.offset}",
                        offsets=(run.expected, run.offset),
                        codes=(reads.values[run.first],),
                        time_ms=reads.time_ms(run.first),
                    )


class NonmonotonicPoll(Check):
    name = "nonmonotonic-poll"
    statement = "a consumer's offsets only grow"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for who, reads in evidence.readers():
            for run in reads.runs():
                if run.offset < run.expected:
                    yield self._found(
                        evidence,
                        f"{who} expected offset {run.expected} and got {run.offset}",
                        offsets=(run.expected, run.offset),
                        codes=(reads.values[run.first],),
                        time_ms=reads.time_ms(run.first),
                    )


class NonmonotonicSend(Check):
    name = "nonmonotonic-send"
    statement = "a later value of an idempotent producer has a higher offset, in its acknowledgement and in the log"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for producer, sends in evidence.sends.items():
            if not sends.idempotent:
                continue
            for words_for_it, offsets in (
                ("was told", sends.outcomes),
                ("has in the log", evidence.places[producer]),
            ):
                highest = highest_sequence = -1
                for sequence, offset in enumerate(offsets):
                    if offset < 0:
                        continue
                    if offset <= highest:
                        yield self._found(
                            evidence,
                            f"producer {producer} {words_for_it} offset {highest} for {highest_sequence}"
                            f" and {offset} for {sequence}",
                            offsets=(highest, offset),
                            codes=(code_of(producer, highest_sequence), code_of(producer, sequence)),
                            time_ms=sends.times_ms[sequence],
                        )
                    else:
                        highest, highest_sequence = offset, sequence


class Unseen(Check):
    name = "unseen"
    statement = "every acknowledged value in the log reaches every consumer"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for reader, reads in evidence.reads.items():
            for first, last in _uncovered(evidence, reads):
                for offset in range(first, last):
                    code = evidence.value_at(offset)
                    if code is None or not _was_acknowledged(evidence, code):
                        continue
                    yield self._found(
                        evidence,
                        f"consumer {reader} never got {words(code)} at offset {offset}",
                        offsets=(offset,),
                        codes=(code,),
                    )


class DenseOffsets(Check):
    name = "dense-offsets"
    statement = "the log begins at offset 0 and has one record at every offset up to its end"

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        expected = 0
        for run in sorted(evidence.log.runs(), key=lambda run: run.offset):
            if run.offset > expected:
                detail = f"no record at offsets {expected} to {run.offset - 1}"
                yield self._found(evidence, detail, offsets=(expected, run.offset))
            elif run.offset < expected:
                detail = f"more than one record at offsets {run.offset} to {min(expected, run.end) - 1}"
                yield self._found(evidence, detail, offsets=(expected, run.offset))
            expected = max(expected, run.end)
        end = evidence.final.end_offset
        if expected != end:
            detail = f"the log ends at {end}, its last record is at {expected - 1}"
            yield self._found(evidence, detail, offsets=(expected, end))


class Liveness(Check):
    name = "liveness"
    statement = "after all faults are healed, every write gets an answer and every log can be read to its end"
    needs_final_log = False

    def violations(self, evidence: Evidence) -> Iterator[Violation]:
        for producer, sends in evidence.sends.items():
            pending = sends.count(PENDING)
            if pending:
                sequence = sends.outcomes.index(PENDING)
                yield self._found(
                    evidence,
                    f"producer {producer} got no answer to {pending} writes; the first is {sequence}",
                    codes=(code_of(producer, sequence),),
                    time_ms=sends.times_ms[sequence],
                )
        if evidence.final.incomplete is not None:
            where = f"read to {evidence.log.position} of {evidence.final.end_offset}"
            yield self._found(evidence, f"{where}: {evidence.final.incomplete}", offsets=(evidence.log.position,))


ALL_CHECKS: Final[tuple[type[Check], ...]] = (
    LostWrite,
    AbortedRead,
    UnsentRead,
    InconsistentOffsets,
    Duplicate,
    PrecommittedRead,
    PollSkip,
    NonmonotonicPoll,
    NonmonotonicSend,
    Unseen,
    DenseOffsets,
    Liveness,
)


def _any_record(evidence: Evidence, first: int, last: int) -> bool:
    """Whether an offset in [first, last) has a record: a hole in the log itself is not the consumer's doing."""
    return any(run.offset < last and first < run.end for run in evidence.runs) or any(
        stray.was_read and first <= stray.offset < last for stray in evidence.strays
    )


def _uncovered(evidence: Evidence, reads: Reads) -> Iterator[tuple[int, int]]:
    """The offsets of the log, as [first, last), that a reader never got."""
    position = 0
    end = evidence.runs[-1].end if evidence.runs else 0
    for run in sorted(reads.runs(), key=lambda run: run.offset):
        if run.offset > position:
            yield position, min(run.offset, end)
        position = max(position, run.end)
    if position < end:
        yield position, end


def _was_acknowledged(evidence: Evidence, code: int) -> bool:
    if not evidence.was_sent(code):
        return False
    outcome = evidence.sends[producer_of(code)].outcomes[sequence_of(code)]
    return outcome >= 0 or outcome == ACKNOWLEDGED
