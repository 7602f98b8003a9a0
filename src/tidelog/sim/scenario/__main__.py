"""`python -m tidelog.sim.scenario FILE... [--rewrite]`: replays scenario files and tells where they differ.

A rewritten file is a change to read as carefully as code: commit it only if you understand what caused it.
"""

import argparse
import sys
from pathlib import Path

from tidelog.sim.scenario.runner import Mismatch, run_file
from tidelog.sim.scenario.text import ScenarioError
from tidelog.sim.scenario.worlds import WORLDS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tidelog.sim.scenario", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--rewrite", action="store_true", help="write what happened into the files")
    chosen = parser.parse_args(arguments)
    failed = False
    for path in chosen.files:
        try:
            differed = run_file(path, WORLDS, rewrite=chosen.rewrite)
        except (Mismatch, ScenarioError) as problem:
            failed = True
            verdict = str(problem) if isinstance(problem, Mismatch) else f"{path}: {problem}"
        else:
            verdict = f"{path}: {'rewritten' if differed else 'as told'}"
        sys.stdout.write(verdict + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
