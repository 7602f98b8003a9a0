"""A result in words for people, and as JSON for programs."""

from typing import Any

from tidelog.verify.history import History
from tidelog.verify.run import Progress, Result
from tidelog.verify.verdict import Judgement, Verdict


def summary(result: Result) -> list[str]:
    """What was done, in a few lines above the table of checks."""
    workload = result.workload
    idempotence = "idempotent" if workload.idempotent else "not idempotent"
    lines = [
        f"topic {workload.topic}: {workload.partitions} partitions, replication factor {result.replication_factor},"
        f" min ISR {result.min_isr}, acks={workload.acks}, {workload.producers} producers ({idempotence}),"
        f" {workload.consumers} consumers, {result.elapsed_s:.1f} s",
        *counted(result.judgement),
    ]
    if result.readers_reopened or result.producers_reopened:
        lines.append(
            f"reopened after an error: consumers {result.readers_reopened} times, producers"
            f" {result.producers_reopened} times; the last error: {result.last_error}"
        )
    if result.topic_kept:
        lines.append(f"topic {workload.topic} is kept")
    return lines


def counted(judgement: Judgement) -> list[str]:
    counts = judgement.counts
    lines = [
        f"records: {counts.sent} sent, {counts.acknowledged} acknowledged, {counts.refused} refused,"
        f" {counts.unknown} of unknown fate, {counts.unanswered} unanswered",
        f"reads: {counts.read} by the consumers, {counts.final} in the final read",
    ]
    if counts.faults:
        faults = ", ".join(f"{number} {kind}" for kind, number in counts.faults.items())
        lines.append(f"faults: {faults}; {counts.leader_changes} leader changes")
    return lines


def check_rows(judgement: Judgement) -> list[tuple[str, int, str]]:
    return [(finding.check.name, finding.count, finding.check.statement) for finding in judgement.findings]


def first_violations(judgement: Judgement, history: History) -> list[str]:
    """The first few of each check that found any, each with its time and the fault it fell into."""
    lines = []
    for finding in judgement.findings:
        for violation in finding.first:
            when = "" if violation.time_ms is None else f", {violation.time_ms / 1000:.3f} s"
            fault = history.fault_at(violation.time_ms)
            during = "" if fault is None else f" ({fault.kind} of node {fault.node})"
            lines.append(f"{violation.check}: partition {violation.partition}{when}{during}: {violation.detail}")
        if finding.count > len(finding.first):
            lines.append(f"{finding.check.name}: and {finding.count - len(finding.first)} more")
    return lines


def last_line(judgement: Judgement) -> str:
    """For stderr, when the verdict is not ok."""
    reasons = "; ".join(judgement.reasons)
    return f"verify {judgement.verdict.value}: {reasons}" if judgement.verdict is not Verdict.OK else "verify ok"


def to_json(result: Result, seed: int) -> dict[str, Any]:
    workload = result.workload
    return {
        **result.judgement.to_json(),
        "seed": seed,
        "seconds": round(result.elapsed_s, 3),
        "topic": workload.topic,
        "topic_kept": result.topic_kept,
        "partitions": workload.partitions,
        "replication_factor": result.replication_factor,
        "min_isr": result.min_isr,
        "acks": workload.acks,
        "idempotent": workload.idempotent,
        "producers": workload.producers,
        "consumers": workload.consumers,
        "readers_reopened": result.readers_reopened,
        "producers_reopened": result.producers_reopened,
        "last_error": result.last_error,
    }


def progress_line(progress: Progress) -> str:
    return (
        f"{progress.elapsed_s:6.0f} s  {progress.acknowledged} acknowledged  {progress.read} read"
        f"  {progress.faults} faults  {progress.leader_changes} leader changes  {progress.phase}"
    )
