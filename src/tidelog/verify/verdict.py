"""Runs every check over a history and says what it comes to."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from tidelog.verify.checks import ALL_CHECKS, Check, Violation
from tidelog.verify.evidence import Evidence
from tidelog.verify.history import History
from tidelog.verify.sends import PENDING, REFUSED, UNKNOWN

# How many violations of a check are kept in full; the rest are counted.
SHOWN: Final = 5


class Verdict(Enum):
    OK = "ok"
    FAILED = "failed"
    # Nothing was found, in too small a sample to mean anything.
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Below any of these a run without violations proves nothing."""

    acknowledged: int = 1_000
    # Of every kind that was asked for.
    faults_of_a_kind: int = 1
    leader_changes: int = 0


@dataclass(slots=True, kw_only=True)
class Finding:
    """What one check found: how often, and the first few."""

    check: type[Check]
    count: int = 0
    first: list[Violation] = field(default_factory=list)

    def add(self, violation: Violation) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(violation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How large the sample is."""

    sent: int
    acknowledged: int
    refused: int
    unknown: int
    unanswered: int
    read: int
    final: int
    leader_changes: int
    faults: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A history's verdict, with everything it rests on."""

    verdict: Verdict
    counts: Counts
    findings: tuple[Finding, ...]
    # Why it failed or is inconclusive, one line each.
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "counts": self.counts.to_json(),
            "checks": {
                finding.check.name: {
                    "statement": finding.check.statement,
                    "violations": finding.count,
                    "first": [violation.to_json() for violation in finding.first],
                }
                for finding in self.findings
            },
        }


def check_history(history: History) -> tuple[Finding, ...]:
    """Every check over every partition, one partition at a time."""
    checks = [(check(), Finding(check=check)) for check in ALL_CHECKS]
    for partition in range(history.partitions):
        evidence = Evidence(history, partition)
        for check, finding in checks:
            if check.needs_final_log and evidence.final.incomplete is not None:
                continue
            for violation in check.violations(evidence):
                finding.add(violation)
    return tuple(finding for _, finding in checks)


def judge(history: History, thresholds: Thresholds, faults_asked: tuple[str, ...] = ()) -> Judgement:
    findings = check_history(history)
    counts = count(history, faults_asked)
    failures = [f"{finding.check.name}: {finding.count}" for finding in findings if finding.count]
    if history.not_whole is not None:
        failures.append(f"the cluster was not healthy at the end: {history.not_whole}")
    short = _shortfalls(counts, thresholds)
    if failures:
        return Judgement(verdict=Verdict.FAILED, counts=counts, findings=findings, reasons=tuple(failures))
    verdict = Verdict.INCONCLUSIVE if short else Verdict.OK
    return Judgement(verdict=verdict, counts=counts, findings=findings, reasons=tuple(short))


def count(history: History, faults_asked: tuple[str, ...] = ()) -> Counts:
    faults = dict.fromkeys(faults_asked, 0)
    for fault in history.faults:
        faults[fault.kind] = faults.get(fault.kind, 0) + 1
    sends = history.sends.values()
    return Counts(
        sent=sum(len(each) for each in sends),
        acknowledged=sum(each.count_acknowledged() for each in sends),
        refused=sum(each.count(REFUSED) for each in sends),
        unknown=sum(each.count(UNKNOWN) for each in sends),
        unanswered=sum(each.count(PENDING) for each in sends),
        read=sum(len(reads) for reads in history.reads.values()),
        final=sum(len(final.reads) for final in history.final.values()),
        leader_changes=history.leader_changes,
        faults=faults,
    )


def _shortfalls(counts: Counts, thresholds: Thresholds) -> list[str]:
    short = []
    if counts.acknowledged < thresholds.acknowledged:
        short.append(f"{counts.acknowledged} acknowledged records, fewer than {thresholds.acknowledged}")
    for kind, number in counts.faults.items():
        if number < thresholds.faults_of_a_kind:
            short.append(f"{number} faults of kind {kind}, fewer than {thresholds.faults_of_a_kind}")
    if counts.leader_changes < thresholds.leader_changes:
        short.append(f"{counts.leader_changes} leader changes, fewer than {thresholds.leader_changes}")
    return short
