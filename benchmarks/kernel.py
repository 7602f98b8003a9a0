"""How fast the kernel turns record batches into Arrow columns, on one core.

python -m benchmarks.kernel [--runs 5] [--mb 64]

Records of 100 B and 1 KB, 10 B of it key, the rest text of which a third is chance; plain and zstd; in batches as
librdkafka makes them under load (500 KB) and as Java's producer does (16 KB). Answers of 1 MB, as a fetch brings them,
CRC checked, every column that the Spark source has without options; one line with headers and epochs as well. By CPU
time, all cases in turns, so that other work on the machine counts less.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time as cpu_s
from typing import Final

from tidelog.kernel import Decoder
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch, iter_batches

OUT: Final = Path(__file__).parent / "out"
GOAL: Final = 5.0
ANSWER_BYTES: Final = 1_000_000
KEY_BYTES: Final = 10
LARGE: Final = 500_000
SMALL: Final = 16_384
NOW_MS: Final = 1_700_000_000_000
PLAIN_RECORDS: Final = 20_000


@dataclass
class Case:
    """One line of the table."""

    size: int
    codec: Codec
    batch_bytes: int
    with_headers: bool = False
    answers: list[bytes] = field(default_factory=list)
    records: int = 0
    rates: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        more = ", 2 headers, epochs" if self.with_headers else ""
        return f"{self.size} B, {self.codec.name.lower()}, batches of {self.batch_bytes // 1000} KB{more}"

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def text(size: int, chance: random.Random) -> bytes:
    """A third of it cannot be guessed: about what logs and events are like to a compressor."""
    words = b"".join(b'{"id":"%08x","ok":true},' % chance.getrandbits(32) for _ in range(size // 24 + 1))
    return words[:size]


def fill(case: Case, total_bytes: int) -> None:
    chance = random.Random(case.size)
    a_batch = max(case.batch_bytes // case.size, 1)
    headers = (("trace", b"0123456789abcdef"), ("source", b"shop")) if case.with_headers else ()
    answer = bytearray()
    while case.records * case.size < total_bytes:
        records = [
            Record(
                timestamp=NOW_MS + number // 100,
                key=b"%010d" % (case.records + number),
                value=text(case.size - KEY_BYTES, chance),
                headers=headers,
            )
            for number in range(a_batch)
        ]
        answer += encode_batch(records, base_offset=case.records, leader_epoch=5, codec=case.codec)
        case.records += a_batch
        if len(answer) >= ANSWER_BYTES:
            case.answers.append(bytes(answer))
            answer.clear()
    if answer:
        case.answers.append(bytes(answer))


def measure(case: Case) -> float:
    """Millions of records for a second of CPU."""
    decoder = Decoder("bench", 0, 0, case.records, headers=case.with_headers, epoch=case.with_headers)
    rows = 0
    begin_s = cpu_s()
    for answer in case.answers:
        for batch in decoder.feed(answer):
            rows += batch.num_rows
    for batch in decoder.flush():
        rows += batch.num_rows
    spent_s = cpu_s() - begin_s
    assert rows == case.records
    return rows / spent_s / 1e6


def plain_rate(case: Case) -> float:
    """The decoder of the commands, which makes an object of each record."""
    rows = 0
    begin_s = cpu_s()
    for answer in case.answers:
        for _, records in iter_batches(answer):
            rows += len(records)
        if rows >= PLAIN_RECORDS:
            break
    return rows / (cpu_s() - begin_s) / 1e6


def start_s(*, cached: bool) -> float:
    """Of a process that imports the kernel and makes it ready, by its CPU."""
    code = "import tidelog.kernel; tidelog.kernel.load()"
    if not cached:
        code = "import numba; numba.config.CACHE_DIR = __import__('tempfile').mkdtemp(); " + code
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cases() -> Iterator[Case]:
    for batch_bytes in (LARGE, SMALL):
        for size in (100, 1000):
            for codec in (Codec.NONE, Codec.ZSTD):
                yield Case(size, codec, batch_bytes)
    yield Case(100, Codec.NONE, LARGE, with_headers=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mb", type=int, default=64)
    options = parser.parse_args()
    measured = list(cases())
    for case in measured:
        fill(case, options.mb * 1_000_000)
        print(f"made {case.records} records of {case.name}", file=sys.stderr)
    # What is compiled, loaded and touched once is no part of a rate.
    for case in measured:
        measure(case)
    before_mb = peak_mb()
    for run in range(options.runs):
        for case in measured:
            case.rates.append(measure(case))
        print(f"run {run + 1}: " + " ".join(f"{case.rates[-1]:.1f}" for case in measured), file=sys.stderr)
    print(f"{'million records per CPU second':<46} {'median':>7} {'spread':>14} {'MB/s':>7} {'x plain':>8}")
    rows = []
    for case in measured:
        times = case.median / plain_rate(case)
        spread = f"{min(case.rates):.1f} to {max(case.rates):.1f}"
        megabytes = case.median * case.size
        print(f"{case.name:<46} {case.median:>7.1f} {spread:>14} {megabytes:>7.0f} {times:>8.0f}")
        rows.append({"name": case.name, "median": case.median, "values": case.rates, "times_plain": times})
    ratios = {case.name: case.records * case.size / sum(map(len, case.answers)) for case in measured}
    starts = {"cached": start_s(cached=True), "compiling": start_s(cached=False)}
    print(f"goal: 100 B, none: >= {GOAL:g}; zstd packs to a {ratios[measured[1].name]:.1f}th of the size")
    print(f"memory in all runs after the first: {peak_mb() - before_mb:+.0f} MB; start: {starts}")
    OUT.mkdir(exist_ok=True)
    (OUT / "kernel.json").write_text(json.dumps({"measures": rows, "start_s": starts}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
