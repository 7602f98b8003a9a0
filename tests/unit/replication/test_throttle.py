"""The replication throttle: the rate is held within 10%, whatever the sizes and the pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.ids import BrokerId
from tidelog.replication.throttle import ReplicationThrottle


@given(
    rate=st.integers(1_000, 50_000_000),
    shares=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=20),
    round_trip_s=st.floats(0.0001, 0.04),
)
def test_the_rate_is_held_within_ten_percent(rate: int, shares: list[float], round_trip_s: float) -> None:
    """Over half a minute, with answers of up to a second's worth."""
    throttle = ReplicationThrottle(BrokerId(1), rate)
    now_s, sent, turn = 0.0, 0, 0
    while now_s < 30.0:
        if throttle.is_exceeded(now_s):
            now_s = throttle.ready_at_s(now_s)
            continue
        size = int(shares[turn % len(shares)] * rate)
        throttle.record(size, now_s)
        sent, turn = sent + size, turn + 1
        now_s += round_trip_s
    assert 0.9 * rate * now_s <= sent <= 1.1 * rate * now_s


def test_it_covers_the_replicas_that_the_topic_names() -> None:
    throttle = ReplicationThrottle(BrokerId(2), 100)
    assert throttle.covers(("*",), 7)
    assert throttle.covers(("0:1", "3:2"), 3)
    assert not throttle.covers(("0:1", "3:2"), 0)
    assert not throttle.covers((), 0)


def test_a_rate_of_nothing_never_lets_go_and_a_new_rate_counts_at_once() -> None:
    throttle = ReplicationThrottle(BrokerId(2), 0)
    assert throttle.is_exceeded(5.0)
    assert throttle.ready_at_s(5.0) == float("inf")
    throttle.set_rate(1000, 5.0)
    assert throttle.ready_at_s(5.0) == pytest.approx(5.001)
    throttle.record(100_000, 6.0)
    # The debt was made at another rate.
    throttle.set_rate(10, 6.0)
    assert throttle.ready_at_s(6.0) <= 6.7
