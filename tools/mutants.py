"""Bugs of history, brought back one at a time: how many seeds until an invariant notices, and which.

    python tools/mutants.py [--seeds 2000] [--clean 0] [NAME…]

A mutant is a patch in tests/mutants, with `bug:`, `change:` and `expects:` (numbers of invariants) above it. It is
applied to a copy of the source; what ships has no switch for it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "tests" / "mutants"
PROGRAM = "import sys; from tidelog.cli.app import run; sys.exit(run(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch."""

    name: str
    bug: str
    change: str
    expects: str
    path: Path

    @classmethod
    def read(cls, path: Path) -> "Mutant":
        head = path.read_text().split("\n\n", 1)[0]
        fields = dict(line.split(": ", 1) for line in head.splitlines())
        return cls(path.stem, fields["bug"], fields["change"], fields["expects"], path)


def run_seeds(source: Path, seeds: range, processes: int) -> tuple[int | None, str]:
    """The seed that broke something, and what; no seed if nothing broke."""
    chosen = f"{seeds[0]}..{seeds[-1]}"
    arguments = ["sim", "--seeds", chosen, "--no-shrink", "--json", "--processes", str(processes)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        failure = json.loads(done.stdout)["failure"]
    except ValueError:
        return None, f"no answer: {done.stderr.strip()[-200:]}"
    return (None, "") if failure is None else (failure["seed"], failure["invariant"])


def try_mutant(mutant: Mutant, seeds: int, processes: int) -> tuple[int | None, str]:
    with tempfile.TemporaryDirectory(prefix="tidelog-mutant-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        applied = subprocess.run(
            ["git", "apply", str(mutant.path)], cwd=directory, capture_output=True, text=True, check=False
        )
        if applied.returncode:
            return None, f"the patch does not apply: {applied.stderr.strip()}"
        seed, what = run_seeds(source, range(seeds), processes)
    if seed is None:
        return seed, what
    # It counts only if the seed is quiet without the mutant.
    _, alarm = run_seeds(ROOT / "src", range(seed, seed + 1), processes)
    return (None, f"seed {seed} breaks {alarm} without the mutant too") if alarm else (seed, what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="mutants to try; all of them if none is named")
    parser.add_argument("--seeds", type=int, default=2000, help="seeds to give each at most")
    parser.add_argument("--clean", type=int, default=0, help="seeds to run without a mutant, first")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutants = [Mutant.read(path) for path in sorted(MUTANTS.glob("*.patch"))]
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    if options.clean:
        seed, what = run_seeds(ROOT / "src", range(options.clean), options.processes)
        print(f"without a mutant: {'no alarm' if not what else f'{what} at seed {seed}'} in {options.clean} seeds")
        if what:
            return 1
    missed = 0
    print(f"{'MUTANT':28} {'BUG':12} {'EXPECTED':12} {'SEEDS':>6}  CAUGHT BY")
    for mutant in chosen:
        seed, what = try_mutant(mutant, options.seeds, options.processes)
        caught = "missed" if seed is None and not what else what
        missed += seed is None
        needed = "" if seed is None else str(seed + 1)
        print(f"{mutant.name:28} {mutant.bug:12} {mutant.expects:12} {needed:>6}  {caught}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
