"""How fast simulated clusters live: seconds of virtual time for one second of CPU, on one core.

python -m benchmarks.simulation [--seeds 20] [--runs 3]

Seeds from 0 on as `tidelog sim` runs them, the heavy ones among them: all kinds of faults, every invariant checked. A
run takes the same seeds once; its rate is all their simulated seconds by all their CPU seconds, so that other work on
the machine counts little.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time as cpu_s
from typing import Final

from tidelog.sim.campaign import Outcome, Settings
from tidelog.sim.runner import run_quietly

OUT: Final = Path(__file__).parent / "out"
SETTINGS: Final = Settings()
GOAL: Final = 20.0


def measure(seeds: range) -> tuple[float, list[Outcome]]:
    """CPU seconds, and what was run."""
    begin_s = cpu_s()
    outcomes = [run_quietly(seed, SETTINGS) for seed in seeds]
    return cpu_s() - begin_s, outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    seeds = range(options.seeds)
    # What is compiled and imported once is no part of a rate.
    measure(range(1))
    rates: list[float] = []
    outcomes: list[Outcome] = []
    for run in range(options.runs):
        spent_s, outcomes = measure(seeds)
        simulated_s = sum(outcome.seconds for outcome in outcomes)
        rates.append(simulated_s / spent_s)
        print(
            f"run {run + 1}: {rates[-1]:.1f} simulated seconds per CPU second, "
            f"{spent_s / len(seeds):.2f} CPU seconds for a seed",
            file=sys.stderr,
        )
    median = statistics.median(rates)
    load = {
        "simulated_seconds": _spread([outcome.seconds for outcome in outcomes]),
        "faults": _spread([outcome.faults for outcome in outcomes]),
        "acknowledged_batches": _spread([outcome.acknowledged for outcome in outcomes]),
    }
    print(f"{median:.1f} simulated seconds per CPU second ({min(rates):.1f} to {max(rates):.1f}), goal >= {GOAL:g}")
    print(f"load of {len(seeds)} seeds, least, median and most: {load}")
    OUT.mkdir(exist_ok=True)
    (OUT / "simulation.json").write_text(json.dumps({"rates": rates, "median": median, "load": load}))
    return 0


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Least, median, most."""
    return round(min(values), 1), round(statistics.median(values), 1), round(max(values), 1)


if __name__ == "__main__":
    sys.exit(main())
