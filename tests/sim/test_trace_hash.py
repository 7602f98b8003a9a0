"""The same seed takes the same way on every Python there is, whatever order its hashes have: to the byte."""

import os
import subprocess
import sys

import pytest
from tests.sim.pythons import ROOT, installed, libraries
from tools.trace_hash import FILE, SEEDS

REWRITE = "python tools/trace_hash.py --write"


def told_by(program: str, version: str, hash_seed: str) -> str:
    paths = [str(ROOT / "src")]
    if program != sys.executable:
        paths.append(str(libraries(version)))
    # Compiled code is kept: each version compiles everything once, not in every run.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONNOUSERSITE": "1",
    }
    command = [program, str(ROOT / "tools" / "trace_hash.py")]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout


# One after the other: they share the directory of libraries.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_trace_of_a_seed_is_the_same_to_the_byte(version: str) -> None:
    programs = installed(version)
    if not programs:
        pytest.skip(f"no Python {version} is installed")
    told = {
        f"{program} with PYTHONHASHSEED={hash_seed}": told_by(program, version, hash_seed)
        for program in programs
        for hash_seed in ("1", "2")
    }
    assert len(set(told.values())) == 1, f"the same seed went different ways: {told}"
    [now] = set(told.values())
    assert now == FILE.read_text(), (
        f"another way than {FILE.relative_to(ROOT)} says. If a change of behaviour explains it: {REWRITE}\n{now}"
    )


def test_other_seeds_have_other_traces() -> None:
    kept = [line.split() for line in FILE.read_text().splitlines()]
    assert [int(seed) for seed, _, _ in kept] == list(SEEDS)
    assert len({digest for _, digest, _ in kept}) == len(SEEDS)
