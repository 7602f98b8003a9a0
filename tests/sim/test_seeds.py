"""Seeds under all faults: every invariant holds after every step; over all of them everything that can happen did."""

import json
import os
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from tests.soak import rounds

from tidelog.sim.campaign import Settings
from tidelog.sim.runner import Totals, run_quietly, run_seeds

CHUNKS = rounds(20, 200)
SEEDS_OF_A_CHUNK = rounds(5, 25)
SETTINGS = Settings()
REGRESSIONS = Path(__file__).parent / "regressions" / "seeds.txt"

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "seeds"
    found.mkdir(exist_ok=True)
    return found


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_invariant_breaks(chunk: int, results: Path) -> None:
    first = chunk * SEEDS_OF_A_CHUNK
    totals = Totals()
    for outcome in run_seeds(range(first, first + SEEDS_OF_A_CHUNK), SETTINGS):
        totals.add(outcome)
        assert outcome.failure is None, "\n".join([f"seed {outcome.seed}", *outcome.failure.lines()])
        assert outcome.seconds >= 30
        assert outcome.faults >= 10
        assert outcome.acknowledged >= 300
    written = results / f"{chunk}.part"
    # Not `asdict`: it takes a Counter for any other dict and counts its items.
    written.write_text(json.dumps({each.name: getattr(totals, each.name) for each in fields(totals)}))
    written.rename(results / f"{chunk}.json")
    _check_whole(results)


def _check_whole(results: Path) -> None:
    """Whichever worker comes last adds up what all of them saw: a kind that never happened fails the run."""
    done = sorted(results.glob("*.json"))
    if len(done) < CHUNKS:
        return
    whole = Totals()
    for path in done:
        values = json.loads(path.read_text())
        whole.merge(Totals(**values | {"faults": Counter(values["faults"])}))
    assert whole.seeds == CHUNKS * SEEDS_OF_A_CHUNK
    assert whole.never_happened(SETTINGS) == []


def _regressions() -> list[int]:
    lines = (line.split() for line in REGRESSIONS.read_text().splitlines())
    return [int(words[0]) for words in lines if words and words[0] != "#"]


@pytest.mark.parametrize("seed", _regressions())
def test_a_seed_that_once_broke_something(seed: int) -> None:
    failure = run_quietly(seed, SETTINGS).failure
    assert failure is None, "\n".join(failure.lines())
