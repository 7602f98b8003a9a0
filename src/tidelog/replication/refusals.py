"""Replicas that the controller would not have in an ISR: not proposed again until there is a reason to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.core.ids import BrokerId
from tidelog.metadata.image import BrokerRegistration

# So long, at most, a replica waits whose refusal has no reason any more and of which no metadata tells.
PROBE_S: Final = 1.0


@dataclass(slots=True)
class _Refusal:
    brokers: Mapping[int, BrokerRegistration]
    next_probe_s: float


class Refusals:
    """INELIGIBLE_REPLICA is about brokers, so it is true of every partition: the controller knows of one of them what
    this leader has not heard yet. A leader of thousands of partitions that asked for each of them again, with every
    fetch, would be too busy to hear it.
    """

    def __init__(self) -> None:
        self._refused: dict[BrokerId, _Refusal] = {}

    def note(self, newcomer: BrokerId, brokers: Mapping[int, BrokerRegistration], now_s: float) -> None:
        """`brokers`: as they were known when the answer came."""
        self._refused[newcomer] = _Refusal(brokers, now_s + PROBE_S)

    def forget(self, newcomer: BrokerId) -> None:
        """The controller takes it again."""
        self._refused.pop(newcomer, None)

    def hold_back(self, newcomer: BrokerId, brokers: Mapping[int, BrokerRegistration], now_s: float) -> bool:
        """Whether not to propose it now. One partition may try once in a while."""
        refusal = self._refused.get(newcomer)
        if refusal is None:
            return False
        if refusal.brokers is not brokers:
            del self._refused[newcomer]
            return False
        if now_s < refusal.next_probe_s:
            return True
        refusal.next_probe_s = now_s + PROBE_S
        return False
