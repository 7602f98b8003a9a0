"""Lag is time (I1): when a follower counts as caught up, by its fetches alone."""

import pytest

from tidelog.core.ids import BrokerId
from tidelog.replication.followers import NEVER, FollowerState, followers_of_new_epoch

LAG_S = 30.0
# A fetch: when, from which offset, where the leader's log ended then.
Fetch = tuple[float, int, int]


def after(*fetches: Fetch, caught_up_s: float = NEVER) -> FollowerState:
    state = FollowerState(last_caught_up_s=caught_up_s)
    for at_s, offset, leader_end in fetches:
        state.on_fetch(offset, 0, leader_end, 12, at_s)
    return state


@pytest.mark.rule("I1")
@pytest.mark.parametrize(
    ("fetches", "caught_up_s"),
    [
        pytest.param([], NEVER, id="never fetched"),
        pytest.param([(10, 5, 5)], 10, id="reached the end: now"),
        pytest.param([(10, 7, 5)], 10, id="beyond the end: now"),
        pytest.param([(10, 4, 5)], NEVER, id="one record short"),
        pytest.param([(10, 4, 5), (20, 5, 9)], 10, id="reached the end of the fetch before: at that fetch"),
        pytest.param([(10, 4, 5), (20, 4, 9)], NEVER, id="did not reach it"),
        pytest.param([(10, 5, 5), (20, 6, 9)], 10, id="behind again: as it was"),
        pytest.param([(10, 5, 9), (20, 9, 15), (30, 15, 20)], 20, id="always one fetch behind is in sync"),
        pytest.param([(10, 5, 9), (20, 8, 15), (30, 14, 20)], NEVER, id="always a record more behind is not"),
        pytest.param([(10, 5, 9), (20, 2, 5)], NEVER, id="the end of the fetch before does not go back"),
    ],
)
def test_the_instant_at_which_it_had_everything(fetches: list[Fetch], caught_up_s: float) -> None:
    assert after(*fetches).last_caught_up_s == caught_up_s


@pytest.mark.rule("I1")
@pytest.mark.parametrize(
    ("state", "leader_end", "now_s", "caught_up"),
    [
        (after((10, 5, 5)), 9, 10 + LAG_S, True),
        (after((10, 5, 5)), 9, 10.001 + LAG_S, False),
        (after((10, 5, 5)), 5, 10_000, True),  # nothing was written since: nothing is lacking
        (after((10, 4, 5)), 5, 10, False),
        (after(caught_up_s=10), 5, 10 + LAG_S, True),
        (after(), 0, 10, False),
    ],
)
def test_caught_up_is_at_the_end_or_had_everything_not_long_ago(
    state: FollowerState, leader_end: int, now_s: float, caught_up: bool
) -> None:
    assert state.is_caught_up(leader_end, now_s, LAG_S) is caught_up


@pytest.mark.rule("I1")
def test_in_a_new_epoch_the_in_sync_count_as_caught_up_now_and_others_never() -> None:
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    followers = followers_of_new_epoch((one, two, three), frozenset({one, two}), one, 77.0)
    assert {each: (state.last_caught_up_s, state.log_end_offset) for each, state in followers.items()} == {
        two: (77.0, -1),
        three: (NEVER, -1),
    }


@pytest.mark.rule("I1")
def test_another_incarnation_begins_anew() -> None:
    state = after((10, 5, 5))
    state.on_fetch(3, 0, 9, 13, 20.0)
    assert (state.last_caught_up_s, state.log_end_offset, state.broker_epoch) == (NEVER, 3, 13)
    # Five, where the leader ended at the old one's last fetch, is nothing that the new one was told of.
    state.on_fetch(9, 0, 12, 13, 30.0)
    assert state.last_caught_up_s == 20.0
