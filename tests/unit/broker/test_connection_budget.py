"""The shared budget: never far beyond its limit, and nobody waits without a reason."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.budget import RequestBudget, Share

LIMIT = 100
CLIENTS = 6


class Holder:
    """A connection that reads a frame piece by piece whenever it may."""

    def __init__(self, budget: RequestBudget) -> None:
        self.share = Share(budget, self.resume)
        self.received = 0
        self.paused = False
        self.woken = False

    def resume(self) -> None:
        self.woken = True

    def ask(self, *, frame_done: bool = False) -> None:
        self.woken = False
        allowed = self.share.may_read(self.received, mid_frame=self.received > 0, frame_done=frame_done)
        self.paused = not allowed


@given(st.lists(st.tuples(st.integers(0, CLIENTS - 1), st.integers(1, 40), st.booleans()), max_size=80))
def test_everyone_gets_through_and_the_limit_holds(steps: list[tuple[int, int, bool]]) -> None:
    budget = RequestBudget(LIMIT)
    holders = [Holder(budget) for _ in range(CLIENTS)]
    for index, size, done in steps:
        holder = holders[index]
        if holder.woken:
            holder.ask()
        if holder.paused:
            continue
        holder.received = 0 if done else holder.received + size
        holder.ask(frame_done=done)
        assert budget.held_bytes == sum(each.received for each in holders)
        if budget.held_bytes < LIMIT:
            assert budget.waiting == 0
    # All go on until their frames are whole: no state is a deadlock.
    for _ in range(2 * CLIENTS):
        for holder in holders:
            if holder.woken:
                holder.ask()
            if not holder.paused:
                holder.received = 0
                holder.ask(frame_done=True)
    assert budget.held_bytes == 0
    assert budget.waiting == 0
    assert not any(holder.paused and not holder.woken for holder in holders)


def test_one_at_a_time_goes_beyond_the_limit() -> None:
    budget = RequestBudget(LIMIT)
    first, second, third = (Holder(budget) for _ in range(3))
    for holder in (first, second, third):
        holder.received = 60
        holder.ask()
    assert (first.paused, second.paused, third.paused) == (False, False, True)
    first.received = 90
    first.ask()
    assert first.paused
    second.received = 0
    second.ask(frame_done=True)
    assert third.woken


def test_who_holds_nothing_is_never_stopped() -> None:
    budget = RequestBudget(LIMIT)
    big, small = Holder(budget), Holder(budget)
    big.received = 1000
    big.ask()
    small.ask()
    assert not small.paused


def test_a_closed_connection_gives_back_and_wakes() -> None:
    budget = RequestBudget(LIMIT)
    first, second = Holder(budget), Holder(budget)
    for holder in (first, second):
        holder.received = 200
        holder.ask()
    assert second.paused
    first.share.close()
    assert second.woken
