"""The epoch cache against Kafka's table and against a dumb model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.checkpoints import EpochEntry
from tidelog.storage.epoch_cache import EpochCache


def _cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


@pytest.mark.rule("E2")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, 100)),  # the latest: up to the log end
        (8, (-1, -1)),  # above every known
        (1, (1, 10)),  # below every known: the start of the first
        (2, (2, 20)),  # known: the start of the next
        (4, (4, 50)),
        (3, (2, 20)),  # between: the largest below, and the start of the next
        (6, (4, 50)),
        (-1, (-1, -1)),
    ],
)
def test_end_offset_for(asked: int, answer: tuple[int, int]) -> None:
    assert _cache((2, 10), (4, 20), (7, 50)).end_offset_for(asked, 100) == answer


@pytest.mark.rule("E2")
def test_a_log_without_epochs_knows_none() -> None:
    assert EpochCache().end_offset_for(0, 100) == (-1, -1)


@pytest.mark.rule("E1")
def test_both_columns_increase_whatever_is_assigned() -> None:
    cache = _cache((1, 0), (2, 10), (3, 20))
    cache.assign(2, 30)
    assert cache.entries == [(1, 0), (2, 30)]
    cache.assign(5, 30)
    assert cache.entries == [(1, 0), (5, 30)]
    assert not cache.assign(5, 40)
    cache.assign(6, 5)
    assert cache.entries == [(1, 0), (6, 5)]


@pytest.mark.rule("E1")
def test_truncation_at_both_ends() -> None:
    cache = _cache((1, 0), (2, 10), (3, 20))
    cache.truncate_from_end(20)
    assert cache.entries == [(1, 0), (2, 10)]
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15)]
    assert cache.dirty
    cache.truncate_from_start(15)
    cache.truncate_from_end(16)
    assert cache.entries == [(2, 15)]
    cache.truncate_from_end(15)
    assert cache.entries == []


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        EpochCache().assign(-1, 0)
    with pytest.raises(ValueError, match="at least 0"):
        EpochCache().assign(0, -1)


actions = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 5)),
    st.tuples(st.just("epoch"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.integers(0, 60)),
    st.tuples(st.just("start"), st.integers(0, 60)),
)


@pytest.mark.rule("E1")
@pytest.mark.rule("E2")
@given(st.lists(actions, max_size=40), st.integers(0, 40))
def test_against_one_epoch_per_offset(steps: list[tuple[str, int]], asked: int) -> None:
    """The dumb twin keeps the epoch of every single offset."""
    cache, start, epochs, epoch = EpochCache(), 0, list[int](), 0
    for action, number in steps:
        end = start + len(epochs)
        if action == "write":
            cache.assign(epoch, end)
            epochs += [epoch] * number
        elif action == "epoch":
            epoch += number
        elif action == "end" and start <= number < end:
            del epochs[number - start :]
            cache.truncate_from_end(number)
        elif action == "start" and start <= number < end:
            del epochs[: number - start]
            start = number
            cache.truncate_from_start(number)
    end = start + len(epochs)
    assert [cache.epoch_for_offset(start + number) for number in range(len(epochs))] == epochs
    assert cache.entries == sorted(cache.entries)
    if not epochs or asked > epochs[-1]:
        expected = (-1, -1)
    elif asked == epochs[-1]:
        expected = (asked, end)
    else:
        above = next(number for number, at in enumerate(epochs) if at > asked)
        expected = (epochs[above - 1] if above else asked, start + above)
    assert cache.end_offset_for(asked, end) == expected
