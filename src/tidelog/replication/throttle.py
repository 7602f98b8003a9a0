"""The throttle of replication (C8): a rate for the bytes of the replicas that a topic's config names.

Both sides have one. The follower leaves throttled partitions out of its fetches while it is over the rate; the leader
answers them with nothing. Followers that are in sync are never held back: that would only shrink the in-sync set.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.core.ids import NO_LEADER, BrokerId

# What may be sent at once after a pause, in seconds of the rate. Whoever waits is woken when it may go on, so no more
# has to be saved up than what a late timer costs.
BURST_S: Final = 0.1
ALL_REPLICAS: Final = ("*",)
# The default of the `….throttled.rate` keys.
UNLIMITED: Final = 2**63 - 1


class ReplicationThrottle:
    """A token bucket that may go into debt: an answer's size is known only when it is there.

    Debt is waited off, so the rate is held however large the answers are. Invariant: the balance never exceeds
    `BURST_S` of the rate.
    """

    __slots__ = ("_at_s", "_balance", "_local_id", "_rate")

    def __init__(self, local_id: BrokerId, rate_bytes_per_s: int, now_s: float = 0.0) -> None:
        self._local_id = local_id
        self._rate = rate_bytes_per_s
        self._balance = rate_bytes_per_s * BURST_S
        self._at_s = now_s

    @classmethod
    def unlimited(cls) -> "ReplicationThrottle":
        """Of nobody in particular: no config names its replicas."""
        return cls(NO_LEADER, UNLIMITED)

    @property
    def rate_bytes_per_s(self) -> int:
        return self._rate

    def set_rate(self, rate_bytes_per_s: int, now_s: float) -> None:
        """`leader.` or `follower.replication.throttled.rate`, which may change while the broker runs."""
        if rate_bytes_per_s != self._rate:
            self._refill(now_s)
            self._rate = rate_bytes_per_s
            # A debt from a higher rate would be waited off at the lower one for too long.
            self._balance = max(-rate_bytes_per_s * BURST_S, min(self._balance, rate_bytes_per_s * BURST_S))

    def covers(self, throttled_replicas: Sequence[str], partition: int) -> bool:
        """Whether `….replication.throttled.replicas` of the topic names this broker's replica of the partition."""
        return bool(throttled_replicas) and (
            tuple(throttled_replicas) == ALL_REPLICAS or f"{partition}:{self._local_id}" in throttled_replicas
        )

    def record(self, size_bytes: int, now_s: float) -> None:
        """Bytes of throttled replicas that have been sent or fetched."""
        self._refill(now_s)
        self._balance -= size_bytes

    def is_exceeded(self, now_s: float) -> bool:
        self._refill(now_s)
        return self._balance <= 0

    def ready_at_s(self, now_s: float) -> float:
        """From when on it is not exceeded any more; infinity at a rate of 0."""
        if not self.is_exceeded(now_s):
            return now_s
        # A hair later than exact, so that whoever wakes then finds it so.
        return now_s + (1.0 - self._balance) / self._rate if self._rate else float("inf")

    def _refill(self, now_s: float) -> None:
        passed_s = now_s - self._at_s
        if passed_s > 0:
            self._balance = min(self._balance + passed_s * self._rate, self._rate * BURST_S)
            self._at_s = now_s
