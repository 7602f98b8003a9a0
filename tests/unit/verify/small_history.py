"""Histories of one partition, small enough to read: values are `producer:sequence`."""

from collections.abc import Mapping, Sequence

from tidelog.verify.history import FinalLog, History
from tidelog.verify.reads import Reads
from tidelog.verify.sends import ACKNOWLEDGED, PENDING, REFUSED, UNKNOWN, Sends
from tidelog.verify.values import from_words
from tidelog.verify.verdict import check_history

OUTCOMES = {"?": UNKNOWN, "refused": REFUSED, "pending": PENDING, "acked": ACKNOWLEDGED}


def sends(producer: int, *outcomes: int | str, idempotent: bool = True) -> Sends:
    """Outcomes by sequence number: the offset it was acknowledged at, or a word."""
    made = Sends(producer, 0, idempotent=idempotent)
    for sequence, outcome in enumerate(outcomes):
        made.sent(sequence)
        made.outcomes[sequence] = outcome if isinstance(outcome, int) else OUTCOMES[outcome]
        made.times_ms[sequence] = 100 + sequence
    return made


def reads(*records: tuple[int, str]) -> Reads:
    made = Reads(0)
    for number, (offset, value) in enumerate(records):
        made.mark(1000 + number)
        made.add(offset, from_words(value))
    return made


def log(*values: str, first: int = 0) -> list[tuple[int, str]]:
    return list(enumerate(values, first))


def history(
    sent: Sequence[Sends],
    final: Sequence[tuple[int, str]],
    read: Mapping[int, Sequence[tuple[int, str]]] | None = None,
    *,
    end: int | None = None,
    incomplete: str | None = None,
) -> History:
    made = History(topic="verify", partitions=1)
    for each in sent:
        made.sends[each.producer, 0] = each
    for reader, records in (read or {}).items():
        made.reads[reader, 0] = reads(*records)
    final_reads = reads(*final)
    made.final[0] = FinalLog(
        reads=final_reads, end_offset=final_reads.position if end is None else end, incomplete=incomplete
    )
    return made


def broken(made: History) -> dict[str, int]:
    """Names of the checks that found something, and how often."""
    return {finding.check.name: finding.count for finding in check_history(made) if finding.count}
