"""Where the replicas of new partitions go (rule C11)."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from tidelog.wire.errors import ApiError, ErrorCode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UsableBroker:
    """A broker that may hold replicas. A fenced one is taken last, and never as the first replica."""

    id: int
    rack: str | None
    fenced: bool


class Placer:
    """Leaders go round over the unfenced brokers; each further replica goes

    first to the rack that the partition uses least, then to the broker that has followed this leader least (so that the
    leadership of a broker that fails spreads over all the others), then to the one with the fewest replicas.
    """

    def __init__(self, brokers: Iterable[UsableBroker], rng: random.Random) -> None:
        ring = _ring(brokers, rng)
        self._brokers = {broker.id: broker for broker in ring}
        self._positions = {broker.id: position for position, broker in enumerate(ring)}
        self._leaders = [broker.id for broker in ring if not broker.fenced]
        self._load = dict.fromkeys(self._brokers, 0)
        self._followed: Counter[tuple[int, int]] = Counter()
        self._placed = 0

    def place(self, replication_factor: int) -> list[int]:
        """The replicas of the next partition, preferred leader first."""
        self._check(replication_factor)
        leader = self._leaders[self._placed % len(self._leaders)]
        self._placed += 1
        replicas = [leader]
        rack_use = Counter([self._brokers[leader].rack])

        def preference(broker_id: int) -> tuple[int, bool, int, int, int]:
            broker = self._brokers[broker_id]
            distance = (self._positions[broker_id] - self._positions[leader]) % len(self._brokers)
            followed = self._followed[leader, broker_id]
            return rack_use[broker.rack], broker.fenced, followed, self._load[broker_id], distance

        while len(replicas) < replication_factor:
            chosen = min((each for each in self._brokers if each not in replicas), key=preference)
            replicas.append(chosen)
            rack_use[self._brokers[chosen].rack] += 1
            self._followed[leader, chosen] += 1
        for replica in replicas:
            self._load[replica] += 1
        return replicas

    def _check(self, replication_factor: int) -> None:
        if replication_factor > len(self._brokers):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): "
                f"only {len(self._brokers)} broker(s) are registered.",
            )
        if not self._leaders:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication_factor} time(s): all brokers are currently fenced.",
            )


def _ring(brokers: Iterable[UsableBroker], rng: random.Random) -> list[UsableBroker]:
    """Racks interleaved, each rack's brokers and the racks themselves from a random start."""
    racks: dict[str | None, list[UsableBroker]] = {}
    for broker in sorted(brokers, key=lambda each: (each.rack is not None, each.rack or "", each.id)):
        racks.setdefault(broker.rack, []).append(broker)
    rotated = _rotated([_rotated(rack, rng) for rack in racks.values()], rng)
    return [broker for row in zip_longest(*rotated) for broker in row if broker is not None]


def _rotated(items: list[T], rng: random.Random) -> list[T]:
    start = rng.randrange(len(items)) if items else 0
    return items[start:] + items[:start]
