"""The table of roles, and what a leader counts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.quorum.raft_kit import static

from tidelog.quorum.roles import (
    LEGAL,
    Candidate,
    Epoch,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)
from tidelog.quorum.voters import ReplicaKey

THREE = static([1, 2, 3])


def make(kind: type, epoch: int) -> Role:
    role: Role
    if kind is Leader:
        role = Leader(epoch, 0, THREE)
    elif kind in (Prospective, Candidate):
        role = kind(epoch, THREE)
    elif kind is Follower:
        role = Follower(epoch, 1)
    elif kind is Resigned:
        role = Resigned(epoch, 0.0)
    else:
        role = Unattached(epoch)
    return role


KINDS = [Unattached, Prospective, Candidate, Leader, Follower, Resigned]


@pytest.mark.rule("Q1")
@pytest.mark.parametrize(("before", "after"), list(itertools.product(KINDS, KINDS)), ids=lambda kind: kind.__name__)
def test_legal_transitions(before: type, after: type) -> None:
    rule = LEGAL.get((before, after))
    for epoch, allowed in [
        (4, False),
        (5, rule in (Epoch.SAME, Epoch.SAME_OR_NEWER)),
        (6, rule in (Epoch.NEWER, Epoch.SAME_OR_NEWER)),
    ]:
        if allowed:
            check_transition(make(before, 5), make(after, epoch))
        else:
            with pytest.raises(AssertionError):
                check_transition(make(before, 5), make(after, epoch))


def test_a_leader_never_stays_one_into_another_epoch_and_nobody_skips_the_vote() -> None:
    assert not any(before is not Candidate for before, after in LEGAL if after is Leader)
    assert not any(before is not Prospective for before, after in LEGAL if after is Candidate)
    assert not any(before is not Leader for before, after in LEGAL if after is Resigned)


@pytest.mark.rule("Q4")
def test_committed_is_what_a_majority_holds_beyond_the_start_of_the_epoch() -> None:
    leader = Leader(5, 100, THREE)
    one, two, three = (ReplicaKey(node) for node in (1, 2, 3))
    assert not leader.on_durable(one, 110)
    assert not leader.on_durable(two, 100), "a majority, but nothing of this epoch"
    assert leader.on_durable(two, 105) and leader.high_watermark == 105
    assert not leader.on_durable(three, 104)
    assert leader.on_durable(three, 120) and leader.high_watermark == 110
    assert not leader.on_durable(two, 90) and leader.high_watermark == 110
    assert not leader.on_durable(ReplicaKey(9), 500), "an observer counts for nothing"


@pytest.mark.rule("Q4")
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50)), max_size=40), st.integers(1, 5))
def test_the_high_watermark_is_the_dumb_twins(reports: list[tuple[int, int]], count: int) -> None:
    leader = Leader(1, 10, static(range(1, count + 1)))
    held = dict.fromkeys(range(1, count + 1), 0)
    expected = -1
    for voter, offset in reports:
        voter = (voter - 1) % count + 1
        held[voter] = max(held[voter], offset)
        for candidate in range(11, 51):
            if sum(1 for each in held.values() if each >= candidate) > count / 2:
                expected = max(expected, candidate)
        leader.on_durable(ReplicaKey(voter), offset)
        assert leader.high_watermark == expected


@pytest.mark.parametrize(
    ("granted", "rejected", "won", "lost"),
    [
        ([1], [], False, False),
        ([1, 2], [], True, False),
        ([1], [2], False, False),
        ([1], [2, 3], False, True),
        ([1, 3], [2], True, False),
    ],
)
def test_when_an_election_is_over(granted: list[int], rejected: list[int], won: bool, lost: bool) -> None:
    role = Candidate(2, THREE, {1})
    for node in granted[1:]:
        role.on_answer(node, granted=True)
    for node in rejected:
        role.on_answer(node, granted=False)
        role.on_answer(node, granted=True)
    role.on_answer(8, granted=True)
    assert (role.is_won, role.is_lost) == (won, lost), "the first answer stands, a stranger's counts for nothing"


@pytest.mark.parametrize(
    ("last_fetch", "own", "expected"),
    [
        ({2: 5.0, 3: 9.0}, 1, 9.0),
        ({2: 0.0, 3: 0.0}, 1, 0.0),
        ({1: 4.0, 2: 5.0, 3: 9.0}, 8, 5.0),
    ],
    ids=["one of two others is enough", "nobody yet", "a leader that is no voter needs two"],
)
def test_when_a_majority_last_fetched(last_fetch: dict[int, float], own: int, expected: float) -> None:
    leader = Leader(1, 0, THREE)
    for node, at_s in last_fetch.items():
        leader.progress(ReplicaKey(node)).on_fetch(0, 1, at_s)
    assert leader.last_majority_s(ReplicaKey(own)) == expected
    assert Leader(1, 0, static([1])).last_majority_s(ReplicaKey(1)) == float("inf")
