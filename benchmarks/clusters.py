"""How long a test waits for its cluster: the first one of a session, and each further one.

python -m benchmarks.clusters [--sessions 5] [--clusters 10]

A session is a process of its own. It starts one `tidelog.testing.Cluster` after another, as a test suite does. A start
ends when the cluster is ready, a stop when its processes and data are removed. Sessions with one and with three brokers
alternate.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter as now_s  # noqa: TID251 - measuring is what this is for
from typing import Final

from tidelog.testing import Cluster

OUT: Final = Path(__file__).parent / "out"
BROKERS: Final = (1, 3)
PARTS: Final = ("first start", "further starts", "stops")


def run_session(brokers: int, clusters: int) -> list[tuple[float, float]]:
    """Seconds for the start and the stop of each cluster."""
    found = []
    for _ in range(clusters):
        began_s = now_s()
        with Cluster(brokers=brokers):
            ready_s = now_s()
        found.append((ready_s - began_s, now_s() - ready_s))
    return found


def measure(sessions: int, clusters: int) -> dict[tuple[int, str], list[float]]:
    found: dict[tuple[int, str], list[float]] = {(brokers, part): [] for brokers in BROKERS for part in PARTS}
    # One round more than counted: the first may have code to compile.
    for number in range(sessions + 1):
        for brokers in BROKERS:
            ended = subprocess.run(
                [sys.executable, "-m", "benchmarks.clusters", "--session", str(brokers), "--clusters", str(clusters)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            if number == 0:
                continue
            starts, stops = zip(*json.loads(ended.stdout), strict=True)
            found[brokers, "first start"].append(starts[0])
            found[brokers, "further starts"] += starts[1:]
            found[brokers, "stops"] += stops
            further_s = statistics.median(starts[1:])
            print(f"{number} of {sessions}, {brokers}: {starts[0]:.3f}, {further_s:.3f} s", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5, help="with each number of brokers (default %(default)s)")
    parser.add_argument("--clusters", type=int, default=10, help="in each session (default %(default)s)")
    # What this module runs for each session.
    parser.add_argument("--session", type=int, metavar="BROKERS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clusters < 2:
        parser.error("--clusters is at least 2: the first one and a further one")
    if options.session is not None:
        print(json.dumps(run_session(options.session, options.clusters)))
        return
    found = measure(options.sessions, options.clusters)
    OUT.mkdir(exist_ok=True)
    (OUT / "clusters.json").write_text(json.dumps([[*key, values] for key, values in found.items()]))
    print(f"{'seconds':<34} {'best':>7} {'median':>7} {'worst':>7} {'of first':>9}")
    for (brokers, part), values in found.items():
        median = statistics.median(values)
        share = f"{median / statistics.median(found[brokers, PARTS[0]]):>9.2f}" if part == "further starts" else ""
        name = f"{brokers} broker{'s' if brokers > 1 else ''}, {part}"
        print(f"{name:<34} {min(values):>7.3f} {median:>7.3f} {max(values):>7.3f} {share}")


if __name__ == "__main__":
    main()
