"""Bugs of history, brought back one at a time: how many seeds until an invariant notices, and which.

    python tools/mutants.py [--seeds 2000] [--clean N] [NAME…]

A mutant is a patch in tests/mutants. Above it stand `bug:`, `change:`, `expects:` (numbers of the invariants that must
break, `liveness`) and, where another one breaks before these can, `earlier:` with that one and the reason. Whatever
else notices it was lucky: the mutant counts as missed. It is applied to a copy of the source; what ships has no switch
for it. A seed that does not end is named, and the mutant counts as missed. At the end the source as it is has to stay
quiet for ten times as many seeds as the slowest mutant took.
"""

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tidelog.sim.checks.watch  # noqa: F401 - every invariant is there once it is loaded
from tidelog.sim.checks.invariant import Invariant
from tidelog.sim.checks.quorum import CutOffLeader

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "tests" / "mutants"
PROGRAM = """
import json, sys
from tidelog.sim.campaign import Settings
from tidelog.sim.runner import Totals, run_seeds

first, last, processes = map(int, sys.argv[1:])
settings, totals, broken = Settings(), Totals(), False
for outcome in run_seeds(range(first, last + 1), settings, processes=min(processes, last + 1 - first)):
    totals.add(outcome)
    broken = outcome.failure is not None
    print(json.dumps([outcome.seed, outcome.failure.invariant if broken else ""]), flush=True)
    if broken:
        break
print(json.dumps([None, "" if broken else ", ".join(totals.never_happened(settings))]), flush=True)
"""
"""Tells of each seed as it ends: who waits for it knows which one does not."""
SEED_TIMEOUT_S = 180.0
"""Far more than a seed takes on a busy machine. Who spins from callback to callback is found by the simulation itself;
this is for one callback that never ends.
"""
HANGS = "hangs"
CLEAN_TIMES = 10
LIVENESS = frozenset({"Liveness", CutOffLeader.name()})
UNHANDLED = "Unhandled"
"""What the nodes' own checks and the rest of what nobody catches are told as."""


def _all_below(kind: type[Invariant]) -> list[type[Invariant]]:
    return [each for below in kind.__subclasses__() for each in (below, *_all_below(below))]


def names_of(told: str) -> frozenset[str]:
    """The invariants that a header means: by their numbers, or by their names where they have none."""
    found: set[str] = set()
    known = _all_below(Invariant)
    for word in (part.strip() for part in told.split(",")):
        if word == "liveness":
            found |= LIVENESS
        elif word == UNHANDLED:
            found.add(word)
        else:
            meant = {each.name() for each in known if word in (str(each.number), each.name())}
            if not meant or word == "0":
                raise ValueError(f"no invariant is {word!r}")
            found |= meant
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch."""

    name: str
    bug: str
    change: str
    expects: str
    path: Path
    earlier: str = ""
    reason: str = ""

    @classmethod
    def read(cls, path: Path) -> "Mutant":
        head = path.read_text().split("\n\n", 1)[0]
        fields = dict(line.split(": ", 1) for line in head.splitlines())
        earlier, _, reason = fields.pop("earlier", "").partition(": ")
        mutant = cls(path.stem, path=path, earlier=earlier, reason=reason, **fields)
        names_of(mutant.expects)
        if earlier and (not reason or not names_of(earlier)):
            raise ValueError(f"{path.name}: `earlier:` wants an invariant and, after a colon, the reason")
        return mutant

    def judge(self, caught_by: str) -> str:
        """Whether what noticed it is what had to."""
        if caught_by in names_of(self.expects):
            return "yes"
        return "earlier" if self.earlier and caught_by in names_of(self.earlier) else "NO"


def run_seeds(source: Path, seeds: range, processes: int) -> tuple[int | None, str]:
    """The seed that broke something, and what; no seed if nothing broke."""
    path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile("w+") as complaints:
        running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(seeds[0]), str(seeds[-1]), str(processes)],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            # So that its workers can be ended with it.
            start_new_session=True,
        )
        try:
            seed, what = _listen(running, seeds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        complaints.seek(0)
        return seed, what or ("" if what is not None else f"no answer: {complaints.read().strip()[-200:]}")


def _listen(running: "subprocess.Popen[str]", seeds: range) -> tuple[int | None, str | None]:
    """As `run_seeds`; None for what it found if it ended and had not said."""
    source = running.stdout
    assert source is not None
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def forward() -> None:
        for line in source:
            lines.put(line)
        lines.put("")

    # It ends with the process.
    threading.Thread(target=forward, daemon=True).start()
    waited_for = seeds[0]
    while True:
        try:
            line = lines.get(timeout=SEED_TIMEOUT_S)
        except queue.Empty:
            # Seeds are told of in their order: the first that is not has been under way for as long, or longer.
            return waited_for, HANGS
        if not line:
            return None, None
        seed, what = json.loads(line)
        if seed is None:
            return None, f"never happened: {what}" if what else ""
        if what:
            return seed, what
        waited_for = seed + 1


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


def try_all(mutants: list[Mutant], seeds: int, processes: int) -> tuple[int, int]:
    """How many were missed, and the seeds that the slowest of the others took."""
    missed = slowest = 0
    print(f"{'MUTANT':28} {'BUG':12} {'EXPECTED':12} {'SEEDS':>6}  {'CAUGHT BY':24} AS EXPECTED")
    for mutant in mutants:
        seed, what = try_mutant(mutant, seeds, processes)
        verdict = "" if seed is None else mutant.judge(what)
        missed += verdict not in ("yes", "earlier")
        needed = "" if seed is None else str(seed + 1)
        slowest = max(slowest, 0 if seed is None else seed + 1)
        told = f"earlier: {mutant.reason}" if verdict == "earlier" else verdict
        row = f"{mutant.name:28} {mutant.bug:12} {mutant.expects:12} {needed:>6}  {what or 'missed':24} {told}"
        print(row.rstrip(), flush=True)
    return missed, slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="mutants to try; all of them if none is named")
    parser.add_argument("--seeds", type=int, default=2000, help="seeds to give each at most")
    parser.add_argument(
        "--clean",
        type=int,
        help=f"seeds to run without a mutant, in the end [default: {CLEAN_TIMES} times those of the slowest]",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    mutants = [Mutant.read(path) for path in sorted(MUTANTS.glob("*.patch"))]
    unknown = sorted(set(options.names) - {mutant.name for mutant in mutants})
    if unknown:
        parser.error(f"no mutant is named {', '.join(unknown)}")
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    missed, slowest = try_all(chosen, options.seeds, options.processes)
    clean = CLEAN_TIMES * slowest if options.clean is None else options.clean
    if clean:
        seed, what = run_seeds(ROOT / "src", range(clean), options.processes)
        print(f"without a mutant: {'no alarm' if not what else f'{what} at seed {seed}'} in {clean} seeds")
        missed += bool(what)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
