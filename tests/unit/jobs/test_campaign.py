"""Odds with their intervals, and the page that shows them."""

import pytest

from tidelog.jobs.campaign.odds import Odds, Run, replay, tallies
from tidelog.jobs.campaign.report import page_of

SAFE, RISKY = "rf=3,min=2,acks=all", "rf=3,min=1,acks=1"


def run(seed: int, configuration: str, lost: int = 0, broken: str = "") -> Run:
    return Run(seed, configuration, 1 + seed % 3, "kill 1 at 0.5 s", 100, lost, "", 0.2, lost > 0, 0, 12.0, broken)


@pytest.mark.parametrize(
    ("times", "of", "low", "high"),
    # As R's prop.test without its correction has them.
    [
        (0, 100, 0.0, 0.0370),
        (5, 100, 0.0215, 0.1118),
        (50, 100, 0.4038, 0.5962),
        (10, 10, 0.7225, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_of_wilson(times: int, of: int, low: float, high: float) -> None:
    assert Odds(times, of).interval == pytest.approx((low, high), abs=1e-4)


def test_runs_are_counted_by_how_many_brokers_failed() -> None:
    runs = [
        run(seed, name, lost=3 if name == RISKY and seed % 3 == 1 else 0) for seed in range(9) for name in (SAFE, RISKY)
    ]
    safe, risky = tallies([SAFE, RISKY], [*runs, run(99, RISKY, broken="Deadlock")])
    assert [safe.loss(failing) for failing in (1, 2, 3)] == [(0, 3)] * 3
    assert [risky.loss(failing) for failing in (1, 2, 3)] == [(0, 3), (3, 3), (0, 3)]
    assert (risky.lost, risky.acknowledged, [each.seed for each in risky.counter_examples]) == (9, 1000, [1, 4, 7])
    assert risky.as_dict()["loss"]["2"]["share"] == 1.0
    assert (safe.unavailable_seeds, risky.unavailable_seeds) == ([], [1, 4, 7])
    assert replay(risky.counter_examples[0]) == "tidelog sim --replay 1 --durability rf=3,min=1,acks=1"
    html = page_of([safe, risky]).html()
    assert "tidelog sim --replay 1 --durability" in html
    assert html.count("<svg") == 6
