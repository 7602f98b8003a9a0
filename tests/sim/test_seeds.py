"""Seeds under all faults: every invariant holds after every step; over many of them every kind of fault struck."""

from pathlib import Path

import pytest
from tests.soak import full_length, rounds

from tidelog.sim.campaign import Settings
from tidelog.sim.runner import Totals, run_quietly, run_seeds

CHUNKS = rounds(4, 100)
SEEDS_OF_A_CHUNK = rounds(3, 50)
SETTINGS = Settings()
REGRESSIONS = Path(__file__).parent / "regressions" / "seeds.txt"

# One worker runs them in turn, so that they can be added up.
pytestmark = [pytest.mark.xdist_group("seeds"), pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def totals() -> Totals:
    return Totals()


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_invariant_breaks(chunk: int, totals: Totals) -> None:
    first = chunk * SEEDS_OF_A_CHUNK
    for outcome in run_seeds(range(first, first + SEEDS_OF_A_CHUNK), SETTINGS):
        totals.add(outcome)
        assert outcome.failure is None, "\n".join([f"seed {outcome.seed}", *outcome.failure.lines()])


@pytest.mark.soak
def test_every_kind_of_fault_struck(totals: Totals) -> None:
    if not full_length():
        # A dozen seeds cannot have them all.
        assert totals.faults.total() > 0
        return
    assert totals.never_struck(SETTINGS) == []
    assert totals.seconds >= 30 * totals.seeds
    assert totals.faults.total() >= 10 * totals.seeds
    assert totals.acknowledged >= 300 * totals.seeds
    assert totals.truncations > 0
    assert totals.isr_changes > 0
    assert totals.unclean > 0


def _regressions() -> list[int]:
    lines = (line.split() for line in REGRESSIONS.read_text().splitlines())
    return [int(words[0]) for words in lines if words and words[0] != "#"]


@pytest.mark.parametrize("seed", _regressions())
def test_a_seed_that_once_broke_something(seed: int) -> None:
    failure = run_quietly(seed, SETTINGS).failure
    assert failure is None, "\n".join(failure.lines())
