"""Placement spreads replicas over brokers and racks, leaders balanced (C11)."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import Placer, UsableBroker
from tidelog.wire.errors import ApiError, ErrorCode


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(number, rack, number in fenced) for number, rack in enumerate(racks)]


def placed(usable: list[UsableBroker], partitions: int, factor: int, seed: int = 1) -> list[list[int]]:
    placer = Placer(usable, random.Random(seed))
    return [placer.place(factor) for _ in range(partitions)]


clusters = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9)


@pytest.mark.rule("C11")
@given(clusters, st.data(), st.integers(0, 99))
def test_replicas_spread_and_leaders_balance(racks: list[str | None], data: st.DataObject, seed: int) -> None:
    factor = data.draw(st.integers(1, len(racks)))
    partitions = data.draw(st.integers(1, 40))
    assignment = placed(brokers(*racks), partitions, factor, seed)
    for replicas in assignment:
        assert len(set(replicas)) == factor
        per_rack = Counter(racks[replica] for replica in replicas)
        # no rack is used again while another one has a broker left
        most = max(per_rack.values())
        sizes = Counter(racks)
        assert all(per_rack[rack] >= min(sizes[rack], most - 1) for rack in sizes)
    leaders = Counter(replicas[0] for replicas in assignment)
    counts = [leaders[number] for number in range(len(racks))]
    assert max(counts) - min(counts) <= 1


@pytest.mark.rule("C11")
@pytest.mark.parametrize("racks", [(None,) * 5, ("a", "b", "c", "a", "b", "c")])
def test_replicas_balance_over_brokers_of_equal_racks(racks: tuple[str | None, ...]) -> None:
    assignment = placed(brokers(*racks), 60, 3)
    held = Counter(replica for replicas in assignment for replica in replicas)
    assert max(held.values()) - min(held.values()) <= 2


@pytest.mark.rule("C11")
def test_a_leaders_followers_are_not_always_the_same() -> None:
    assignment = placed(brokers(*(None,) * 5), 100, 2)
    for leader in range(5):
        followers = Counter(replicas[1] for replicas in assignment if replicas[0] == leader)
        # if it fails, its leadership spreads over all the others
        assert len(followers) == 4 and max(followers.values()) - min(followers.values()) <= 1


def test_the_start_is_random_and_the_same_seed_gives_the_same_placement() -> None:
    starts = {placed(brokers(*(None,) * 5), 1, 3, seed)[0][0] for seed in range(50)}
    assert starts == set(range(5))
    assert placed(brokers("a", "b", None), 9, 2, 7) == placed(brokers("a", "b", None), 9, 2, 7)


def test_fenced_brokers_never_come_first_and_are_taken_last() -> None:
    for replicas in placed(brokers(None, None, None, None, fenced=(1, 3)), 12, 2):
        assert set(replicas) == {0, 2}
    for replicas in placed(brokers(None, None, None, fenced=(1,)), 12, 3):
        assert replicas[-1] == 1


@pytest.mark.parametrize(
    ("usable", "factor", "complaint"),
    [
        (brokers(None), 2, "only 1 broker"),
        (brokers(), 1, "only 0 broker"),
        (brokers(None, None, fenced=(0, 1)), 1, "all brokers are currently fenced"),
    ],
)
def test_what_cannot_be_placed(usable: list[UsableBroker], factor: int, complaint: str) -> None:
    with pytest.raises(ApiError, match=complaint) as raised:
        placed(usable, 1, factor)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
