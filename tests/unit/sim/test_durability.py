"""What configurations are worth: the same incident for all, the same verdict every time."""

import itertools

import pytest

from tidelog.sim.durability import CONFIGURATIONS, BadConfiguration, Durability, incident_of, run


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_a_configuration_comes_back_from_its_name(configuration: Durability) -> None:
    assert Durability.parse(str(configuration)) == configuration


@pytest.mark.parametrize("text", ["rf=4", "acks=2", "min", "", "rf=1,min=2", "rf=3,min=2,acks=all,sync"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration):
        Durability.parse(text)


def test_one_two_or_three_brokers_fail() -> None:
    assert [len(incident_of(seed)) for seed in range(6)] == [1, 2, 3, 1, 2, 3]
    for failures in map(incident_of, range(60)):
        assert len({each.broker for each in failures}) == len(failures)
        # Each while the one before it is away.
        assert all(b.at_s < a.at_s + a.lasts_s for a, b in itertools.pairwise(failures))


def test_a_leader_that_is_cut_off_loses_what_it_alone_acknowledged() -> None:
    seed = next(seed for seed in range(0, 60, 3) if incident_of(seed)[0].kind == "isolate")
    risky = Durability.parse("rf=3,min=1,acks=1")
    verdict = run(seed, risky)
    assert not verdict.broken
    assert verdict.lost > 0
    assert verdict.examples[0].offset >= 0
    assert run(seed, risky).digest == verdict.digest
    safe = run(seed, Durability())
    assert (safe.lost, safe.broken, safe.unavailable) == (0, "", False)
