"""The README's first table, from the values that `benchmarks.first_screen` measured."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
RESULTS: Final = Path(__file__).with_name("first_screen.json")
BEGIN: Final = "<!-- measured: python -m benchmarks.first_screen --write -->\n"
END: Final = "<!-- end of measured -->\n"


@dataclass(slots=True)
class Measured:
    """The values of all rounds of one side."""

    start_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    failover_s: list[float] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Results:
    machine: dict[str, str]
    tidelog: Measured
    kafka: Measured
    mock: Measured

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Results":
        found = json.loads(text)
        sides = {name: Measured(**found[name]) for name in ("tidelog", "kafka", "mock")}
        return cls(machine=found["machine"], **sides)


def render(results: Results) -> str:
    about, sides = results.machine, (results.tidelog, results.kafka, results.mock)
    rows = [
        ("three brokers", "Tidelog", f"Apache Kafka {about['kafka']}", f"mock of librdkafka {about['librdkafka']}"),
        ("---", "---", "---", "---"),
        ("start to the first acknowledged write", *(_seconds(side.start_s) for side in sides)),
        ("memory of all processes, idle (PSS)", *(_megabytes(side.memory_mb) for side in sides)),
        ("`kill -9` of a leader to the next acknowledged write", *(_seconds(side.failover_s) for side in sides)),
        ("acknowledged records lost by the kill", *(_total(side.lost) for side in sides)),
        ("real replication", "yes", "yes", "no"),
        ("commands for faults: kill, pause, isolate, slow a broker", "yes", "no", "no"),
        ("replay of a failure from its seed", "yes", "no", "no"),
    ]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    count = len(results.tidelog.start_s)
    rounds = "one round" if count == 1 else f"the median of {count} rounds in turns"
    return (
        f"{table}\nMeasured in one run with the same client: {rounds} on "
        f"{about['cores']} cores, Python {about['python']}, Java {about['java']}.\n"
        "The mock runs inside the client's process; its memory is the growth of that process.\n"
    )


def replace_table(text: str, table: str) -> str:
    """`text` with a new table between its markers."""
    before, found, rest = text.partition(BEGIN)
    _, also_found, after = rest.partition(END)
    if not found or not also_found:
        raise ValueError("the markers of the measured table are missing")
    return f"{before}{BEGIN}{table}{END}{after}"


def _seconds(values: Sequence[float]) -> str:
    if not values:
        return "-"
    median = statistics.median(values)
    if median < 0.1:
        return f"{1000 * median:.0f} ms"
    return f"{median:.0f} s" if median >= 10 else f"{median:.2g} s"


def _megabytes(values: Sequence[float]) -> str:
    return f"{float(f'{statistics.median(values):.3g}'):,.0f} MB" if values else "-"


def _total(values: Sequence[int]) -> str:
    return str(sum(values)) if values else "-"
