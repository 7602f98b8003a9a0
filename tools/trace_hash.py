"""Runs a few seeds and prints the hash of each trace; ``--write`` keeps them in tests/sim/trace_hash.txt.

    python tools/trace_hash.py --write

A behaviour that changes changes the hashes, and then they are written anew. A hash that differs from one Python to
another, or from one run to the next, is a bug: something reached an order, an address or a clock of its own.
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "sim" / "trace_hash.txt"
# Four brokers; three with a quorum of their own.
SEEDS = (3, 6)
SECONDS = 10.0
MEAN_GAP_S = 0.5


def hashes(trace_directory: Path | None = None) -> Iterator[str]:
    """A line for each seed: the seed, the hash, how many steps it took."""
    from tidelog.sim.campaign import Settings, run_seed

    logging.disable(logging.CRITICAL)
    settings = Settings(seconds=SECONDS, mean_gap_s=MEAN_GAP_S, least_faults=0, least_batches=0)
    for seed in SEEDS:
        lines: list[str] = []
        outcome = run_seed(seed, settings, sink=lines.append)
        if outcome.failure is not None:
            raise SystemExit("\n".join([f"seed {seed}", *outcome.failure.lines()]))
        if trace_directory is not None:
            (trace_directory / f"{seed}.jsonl").write_text("".join(line + "\n" for line in lines))
        yield f"{seed} {outcome.digest} {outcome.steps}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="keep them as what every Python has to come to")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="write the traces there, to compare them")
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    text = "".join(line + "\n" for line in hashes(chosen.traces))
    if chosen.write:
        FILE.write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
