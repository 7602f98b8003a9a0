"""Sees to the Java that Spark needs, for `make setup`: installs Debian's where it may, else says the one line to run.

Brokers need none, so that a machine without it is set up all the same: it leaves out what runs on Spark.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from tidelog.jobs.java import PACKAGE, why_no_java

APT_S = 300
Run = Callable[[Sequence[str]], int]


def see_to_java(run: Run, *, missing: str | None, may_install: bool) -> str | None:
    """What is left to say, if anything. `missing` is why there is no Java, None if there is."""
    if missing is None:
        return None
    without = "Until then what runs on Spark is left out: tests/spark, an act of the demo."
    if not may_install:
        return f"{missing}\n{without}"
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGE],
    ):
        status = run(command)
        if status != 0:
            return f"{' '.join(command)} ended with {status}. {missing}\n{without}"
    return None


def _run(command: Sequence[str]) -> int:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(
            command, env=environment, stdout=subprocess.DEVNULL, timeout=APT_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"{command[0]} was given up after {APT_S} s", file=sys.stderr)
        return -1


def main() -> int:
    may_install = os.geteuid() == 0 and shutil.which("apt-get") is not None
    left = see_to_java(_run, missing=why_no_java(), may_install=may_install)
    if left is None and (still := why_no_java()) is not None:
        # JAVA_HOME may point elsewhere.
        left = still
    if left is not None:
        print(left, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
