"""A history as JSON lines: for other tools, and to be judged again.

Values read `producer:sequence`. A line holds at most `_CHUNK` records; lines of one producer, or one reader, and
partition stand in order. Times are milliseconds since the run began; of reads, [index in the line, time] of each poll.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tidelog.verify.history import FaultEvent, FinalLog, History
from tidelog.verify.reads import Reads
from tidelog.verify.sends import ACKNOWLEDGED, PENDING, REFUSED, UNKNOWN, Sends
from tidelog.verify.values import from_words, words
from tidelog.verify.workload import VerifyError

FORMAT_VERSION: Final = 1
_CHUNK: Final = 10_000
_OUTCOMES: Final = {PENDING: "pending", UNKNOWN: "unknown", REFUSED: "refused", ACKNOWLEDGED: "acknowledged"}
_CODES: Final = {word: code for code, word in _OUTCOMES.items()}


def write_history(history: History, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(history):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read_history(path: Path) -> History:
    history: History | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                fields = json.loads(line)
                if history is None:
                    history = _begin(fields)
                else:
                    _add(history, fields)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise VerifyError(f"{path}, line {number}: not a line of a history file ({error})") from error
    if history is None:
        raise VerifyError(f"{path} is empty")
    return history


def _lines(history: History) -> Iterator[dict[str, Any]]:
    yield {
        "type": "run",
        "version": FORMAT_VERSION,
        "topic": history.topic,
        "partitions": history.partitions,
        "leader_changes": history.leader_changes,
        "not_whole": history.not_whole,
    }
    for fault in history.faults:
        yield {"type": "fault", **asdict(fault)}
    for (producer, partition), sends in sorted(history.sends.items()):
        for first in range(0, len(sends), _CHUNK):
            yield {
                "type": "sends",
                "producer": producer,
                "partition": partition,
                "idempotent": sends.idempotent,
                "first": first,
                "outcomes": [_OUTCOMES.get(each, each) for each in sends.outcomes[first : first + _CHUNK]],
                "times_ms": list(sends.times_ms[first : first + _CHUNK]),
            }
    for (reader, partition), reads in sorted(history.reads.items()):
        yield {"type": "reader", "reader": reader, "partition": partition}
        for line in _read_lines(reads):
            yield {"type": "reads", "reader": reader, "partition": partition, **line}
    for partition, log in sorted(history.final.items()):
        yield {
            "type": "log",
            "partition": partition,
            "start_offset": log.start_offset,
            "end_offset": log.end_offset,
            "incomplete": log.incomplete,
        }
        for line in _read_lines(log.reads):
            yield {"type": "log-records", "partition": partition, **line}


def _read_lines(reads: Reads) -> Iterator[dict[str, Any]]:
    marks = list(reads.marks())
    for run in reads.runs():
        for first in range(run.first, run.last, _CHUNK):
            last = min(first + _CHUNK, run.last)
            offset = run.offset + first - run.first
            yield {
                "expected": run.expected if first == run.first else offset,
                "offset": offset,
                "values": [words(code) for code in reads.values[first:last]],
                "times_ms": [[max(index - first, 0), time_ms] for index, time_ms in _between(marks, first, last)],
            }


def _between(marks: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The marks that say when the records [first, last) were read: those inside, and the one that covers the first."""
    inside = [mark for mark in marks if first < mark[0] < last]
    covering = [mark for mark in marks if mark[0] <= first][-1:]
    return covering + inside


def _begin(fields: dict[str, Any]) -> History:
    if fields["type"] != "run" or fields["version"] != FORMAT_VERSION:
        raise ValueError("the first line does not describe a run")
    return History(
        topic=fields["topic"],
        partitions=fields["partitions"],
        leader_changes=fields["leader_changes"],
        not_whole=fields["not_whole"],
    )


def _add(history: History, fields: dict[str, Any]) -> None:
    match fields.pop("type"):
        case "fault":
            history.faults.append(FaultEvent(**fields))
        case "sends":
            key = fields["producer"], fields["partition"]
            sends = history.sends.setdefault(key, Sends(*key, idempotent=fields["idempotent"]))
            sends.outcomes.extend(_CODES.get(each, each) for each in fields["outcomes"])
            sends.times_ms.extend(fields["times_ms"])
        case "reader":
            history.reads[fields["reader"], fields["partition"]] = Reads(fields["partition"])
        case "reads":
            _add_reads(history.reads[fields["reader"], fields["partition"]], fields)
        case "log":
            partition = fields.pop("partition")
            history.final[partition] = FinalLog(reads=Reads(partition), **fields)
        case "log-records":
            _add_reads(history.final[fields["partition"]].reads, fields)
        case other:
            raise ValueError(f"a line of type {other!r}")


def _add_reads(reads: Reads, fields: dict[str, Any]) -> None:
    times = dict(fields["times_ms"])
    for index, value in enumerate(fields["values"]):
        if index in times:
            reads.mark(times[index])
        reads.add(fields["offset"] + index, from_words(value))
