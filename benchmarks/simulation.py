"""How fast simulated clusters live: seconds of virtual time for one second of CPU, on one core.

python -m benchmarks.simulation [--seeds 10] [--runs 5]

Three nodes, all kinds of faults, every invariant checked: what `tidelog sim` runs. A run takes the same seeds once; its
rate is all their simulated seconds by all their CPU seconds, so that other work on the machine counts little.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import process_time as cpu_s
from typing import Final

from tidelog.sim.campaign import Outcome, Settings
from tidelog.sim.runner import run_quietly

OUT: Final = Path(__file__).parent / "out"
SETTINGS: Final = Settings(brokers=3)
GOAL: Final = 20.0


def measure(seeds: range) -> tuple[float, list[Outcome]]:
    begin_s = cpu_s()
    outcomes = [run_quietly(seed, SETTINGS) for seed in seeds]
    spent_s = cpu_s() - begin_s
    return sum(outcome.seconds for outcome in outcomes) / spent_s, outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    seeds = range(options.seeds)
    # What is compiled and imported once is no part of a rate.
    measure(range(1))
    rates: list[float] = []
    outcomes: list[Outcome] = []
    for run in range(options.runs):
        rate, outcomes = measure(seeds)
        rates.append(rate)
        print(f"run {run + 1}: {rate:.1f} simulated seconds per CPU second", file=sys.stderr)
    median = statistics.median(rates)
    load = {
        "simulated_seconds": min(outcome.seconds for outcome in outcomes),
        "faults": min(outcome.faults for outcome in outcomes),
        "acknowledged_batches": min(outcome.acknowledged for outcome in outcomes),
    }
    print(f"{median:.1f} simulated seconds per CPU second ({min(rates):.1f} to {max(rates):.1f}), goal >= {GOAL:g}")
    print(f"a seed has at least {load}")
    OUT.mkdir(exist_ok=True)
    (OUT / "simulation.json").write_text(json.dumps({"rates": rates, "median": median, "least": load}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
